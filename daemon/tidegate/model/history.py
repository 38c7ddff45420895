"""Questions about the past and their answers: which series, over what time, in what steps, summed up how.

The same question may be put to our own store and to a Prometheus; both answer with the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum

from tidegate.model.gpu import COUNTERS as GPU_COUNTERS
from tidegate.model.gpu import GpuFigure
from tidegate.model.machine import COUNTERS as MACHINE_COUNTERS
from tidegate.model.machine import MachineFigure
from tidegate.model.vocabulary import Counter, Distribution, Gauge

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Scope(StrEnum):
    """What a series belongs to; the `scope` of a `SeriesKey`."""

    HOST = "host"
    GPU = "gpu"
    ENGINE = "engine"


class Label(StrEnum):
    """What tells series of one metric apart, and what they may be chosen and grouped by."""

    HOST = "host"
    POOL = "pool"
    SERVICE = "service"
    ENGINE = "engine"
    GPU = "gpu"
    """The GPU's uuid."""
    RANK = "rank"
    """The data parallel rank of an engine's series, the partition of a GPU's, the device of a host's."""
    LE = "le"
    """The upper bound of a histogram's bucket."""


class Aggregate(StrEnum):
    """How the samples of one series in one step become one value."""

    AVG = "avg"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"
    LAST = "last"
    INCREASE = "increase"
    """Of a counter: what was added, resets taken out; the increase between two samples belongs to the later one."""
    RATE = "rate"
    """The increase over the seconds of the step."""
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    """Of a distribution: the quantile of the buckets' increases."""


QUANTILES: Mapping[Aggregate, float] = {Aggregate.P50: 0.5, Aggregate.P95: 0.95, Aggregate.P99: 0.99}
OF_GAUGES = frozenset({Aggregate.AVG, Aggregate.MIN, Aggregate.MAX, Aggregate.SUM, Aggregate.COUNT, Aggregate.LAST})
OF_COUNTERS = frozenset({Aggregate.INCREASE, Aggregate.RATE, Aggregate.LAST})


class Across(StrEnum):
    """How the series of one group become one; a series that has no value in a step is left out of that step."""

    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Layer(StrEnum):
    """What an answer was made of."""

    RAW = "raw"
    FIVE_MINUTES = "5m"
    HOUR = "1h"


class Kind(StrEnum):
    """What a metric's values are."""

    GAUGE = "gauge"
    COUNTER = "counter"
    DISTRIBUTION = "distribution"
    """A histogram as a whole: its series are the counters NAME_bucket, and only quantiles can be asked of it."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by the words of the wire: `scope` and `name` of a `SeriesKey`."""

    scope: Scope
    name: str
    kind: Kind

    def __str__(self) -> str:
        return f"gpu_{self.name}" if self.scope is Scope.GPU else self.name


def _known() -> dict[str, Metric]:
    found = [Metric(Scope.HOST, "nvml_up", Kind.GAUGE), Metric(Scope.GPU, "up", Kind.GAUGE)]
    found += [Metric(Scope.HOST, figure.value, _kind(figure in MACHINE_COUNTERS)) for figure in MachineFigure]
    found += [Metric(Scope.GPU, figure.value, _kind(figure in GPU_COUNTERS)) for figure in GpuFigure]
    found.append(Metric(Scope.GPU, "xid_events", Kind.COUNTER))
    found += [Metric(Scope.ENGINE, gauge.value, Kind.GAUGE) for gauge in Gauge]
    found += [Metric(Scope.ENGINE, counter.value, Kind.COUNTER) for counter in Counter]
    for name in Distribution:
        found.append(Metric(Scope.ENGINE, name.value, Kind.DISTRIBUTION))
        found += [Metric(Scope.ENGINE, f"{name.value}_{part}", Kind.COUNTER) for part in ("bucket", "sum", "count")]
    return {str(metric): metric for metric in found}


def _kind(counts: bool) -> Kind:  # noqa: FBT001 - one question, one answer
    return Kind.COUNTER if counts else Kind.GAUGE


METRICS: Mapping[str, Metric] = _known()
"""Every metric whose history can be asked for, by its name: the wire's, with `gpu_` before a GPU's."""


def metric(name: str) -> Metric:
    """The metric of a name, the exported spelling (`tidegate_NAME`, `NAME_total`) included; raises ValueError."""
    plain = name.removeprefix("tidegate_").removesuffix("_total")
    if plain in METRICS:
        return METRICS[plain]
    near = get_close_matches(plain, METRICS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(METRICS))}"
    raise ValueError(f"there is no metric {name!r}; {hint}")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large an answer may be; beyond it the question is refused, never cut short."""

    series: int = 1_000
    points: int = 500_000
    """Of all series together."""
    samples: int = 60_000_000
    """That have to be read for it."""
    hosts: int = 100
    """Whose newest reports have to be read one by one for it."""


class LimitError(ValueError):
    """The answer would be larger than a limit; the words name the limit, what was asked and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; `Question.checked` says whether it makes sense."""

    metric: Metric
    since: datetime
    until: datetime
    step: timedelta | None = None
    """The width of a value's time, aligned to the epoch; None asks for every sample as it was taken."""
    aggregate: Aggregate = Aggregate.AVG
    """Not used without a step."""
    where: Mapping[Label, frozenset[str]] = field(default_factory=dict)
    """For each label the values of which a series must have one; a label that is absent admits every value."""
    by: tuple[Label, ...] | None = None
    """Add series together that agree in these labels; None keeps each on its own."""
    across: Across = Across.SUM

    def bounded(self, limits: Limits) -> Question:
        """The question, checked; raises LimitError too when one line alone would have too many values."""
        steps = (self.until - self.since) // self.step if self.step else 0
        if steps > limits.points:
            raise LimitError(f"a line of the answer has {steps:,} points, and {limits.points:,} is the limit")
        return self.checked()

    def checked(self) -> Question:
        """The question; raises ValueError with the remedy when it has no sensible answer."""
        if not self.since < self.until:
            raise ValueError("`since` must be before `until`")
        if self.step is None:
            return self._checked_raw()
        if self.step < timedelta(seconds=1) or self.step % timedelta(seconds=1):
            raise ValueError("`step` must be a whole number of seconds, at least one")
        fitting = _FITTING[self.metric.kind]
        if self.aggregate not in fitting:
            raise ValueError(
                f"{self.metric} is a {self.metric.kind.value}: ask for {', '.join(sorted(fitting))}, "
                f"not {self.aggregate.value}"
            )
        return self

    def _checked_raw(self) -> Question:
        if self.by is not None:
            raise ValueError("samples of several series have no common times: give a `step` to group them by")
        if self.metric.kind is Kind.DISTRIBUTION:
            raise ValueError(f"{self.metric} is a distribution: give a `step` and ask for p50, p95 or p99")
        return self

    def grid(self, step: timedelta) -> range:
        """The steps that the span touches: their starts in unix seconds."""
        width = int(step.total_seconds())
        first = int((self.since - _EPOCH) / timedelta(seconds=1)) // width * width
        last = -((_EPOCH - self.until) // timedelta(seconds=1))
        return range(first, last, width)


_FITTING = {
    Kind.GAUGE: OF_GAUGES,
    Kind.COUNTER: OF_COUNTERS,
    Kind.DISTRIBUTION: frozenset(QUANTILES),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One series, or one group of them, of an answer."""

    labels: Mapping[Label, str]
    """Those that the series has, or that it was grouped by."""
    at: Sequence[float]
    """Unix seconds: of the samples, or the starts of the steps (then every line has the same)."""
    values: Sequence[float | None]
    """None is missing, never zero. As many as `at`."""


@dataclass(frozen=True, slots=True)
class History:
    """The answer: one line a series or group, in the order of their labels."""

    question: Question
    step: timedelta | None
    """The step of the answer: wider than asked for where finer history is not kept any more (`notes` say so)."""
    layer: Layer
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
