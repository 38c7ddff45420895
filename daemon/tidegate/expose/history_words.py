"""The history of a metric in a Prometheus: under which name and labels the agents' pages export it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.expose import engine_families as engines
from tidegate.expose import gpu_families as gpus
from tidegate.expose import host_families as hosts
from tidegate.expose.read_back import host_of, target_of
from tidegate.expose.sample_cells import AGENT_INFO, GAUGE_OF
from tidegate.expose.selectors import Matchers, selector
from tidegate.model.gpu import COUNTERS as GPU_COUNTERS
from tidegate.model.gpu import GpuFigure
from tidegate.model.history import Kind, Label, Metric, Scope
from tidegate.model.machine import BY_DEVICE, MachineFigure
from tidegate.model.machine import COUNTERS as MACHINE_COUNTERS
from tidegate.model.scrape import Labels, PrometheusPlace
from tidegate.model.vocabulary import Counter, Distribution, Gauge

_MOST_VALUES = 60
"""A selector does not name more values of a label than this: it then takes all and passes over what was not meant."""
_NARROWED = ("instance", "engine", "exported_engine", "uuid")


@dataclass(frozen=True, slots=True)
class Exported:
    """How a metric is exported: the sample's name, labels that tell it from others, and our words for its labels."""

    name: str
    labels: Mapping[Label, str]
    fixed: tuple[tuple[str, str], ...] = ()

    def selector(self, matchers: Matchers, chosen: Iterable[Labels] = ()) -> str:
        """All its series; or little more than the chosen ones."""
        return selector([self.name], (*matchers, *self.fixed), *_narrowed(list(chosen)))

    def words(self, labels: Labels, host: str) -> dict[Label, str]:
        """A series' labels in our words; those that it does not have are left out."""
        found = {word: labels.get(f"exported_{label}") or labels.get(label, "") for word, label in self.labels.items()}
        return {word: text for word, text in {Label.HOST: host, **found}.items() if text}


def _narrowed(chosen: Sequence[Labels]) -> list[str]:
    more = []
    for label in _NARROWED:
        values = {labels.get(label, "") for labels in chosen}
        if values and "" not in values and len(values) <= _MOST_VALUES:
            text = "|".join(re.escape(value) for value in sorted(values)).replace("\\", "\\\\").replace('"', '\\"')
            more.append(f'{label}=~"{text}"')
    return more


def exported(metric: Metric) -> Exported:
    """How the metric is exported; raises ValueError for one that is in no page."""
    found = _KNOWN.get(metric)
    if found is None:
        raise ValueError(
            f"{metric} is not in the agents' pages, so a Prometheus has no history of it; it is kept where agents are "
            'the source ([controller] source = "agents")'
        )
    return found


_ENGINE = {Label.POOL: "pool", Label.SERVICE: "service", Label.ENGINE: "engine"}
_WORKER = {**_ENGINE, Label.RANK: "worker"}


@dataclass(slots=True)
class _Table:
    known: dict[Metric, Exported] = field(default_factory=dict)

    def engine(self, name: str, kind: Kind, family: str, *fixed: tuple[str, str]) -> None:
        self.known[Metric(Scope.ENGINE, name, kind)] = Exported(family, _ENGINE, fixed)

    def worker(self, name: str, kind: Kind, family: str) -> None:
        self.known[Metric(Scope.ENGINE, name, kind)] = Exported(family, _WORKER)

    def histogram(self, name: Distribution, family: str) -> None:
        buckets = Exported(f"{family}_bucket", {**_ENGINE, Label.LE: "le"})
        self.known[Metric(Scope.ENGINE, name.value, Kind.DISTRIBUTION)] = buckets
        self.known[Metric(Scope.ENGINE, f"{name}_bucket", Kind.COUNTER)] = buckets
        for part in ("sum", "count"):
            self.engine(f"{name}_{part}", Kind.COUNTER, f"{family}_{part}")

    def gpu(self, name: str, family: str, *, counts: bool = False) -> None:
        kind = Kind.COUNTER if counts else Kind.GAUGE
        self.known[Metric(Scope.GPU, name, kind)] = Exported(family, {Label.GPU: "uuid"})

    def host(self, name: str, family: str, *, counts: bool = False, by_device: bool = False) -> None:
        labels = {Label.RANK: "device"} if by_device else {}
        self.known[Metric(Scope.HOST, name, Kind.COUNTER if counts else Kind.GAUGE)] = Exported(family, labels)


def _known() -> dict[Metric, Exported]:
    table = _Table()
    _add_engines(table)
    table.host("nvml_up", "tidegate_nvml_up")
    for figure in MachineFigure:
        counts, family = figure in MACHINE_COUNTERS, hosts.family_name(figure)
        table.host(figure.value, family, counts=counts, by_device=figure in BY_DEVICE)
    table.gpu("up", "tidegate_gpu_up")
    for gpu in gpus.TEXTS:
        if gpu is not GpuFigure.CLOCK_EVENTS:
            table.gpu(gpu.value, gpus.family_name(gpu), counts=gpu in GPU_COUNTERS)
    return table.known


def _add_engines(table: _Table) -> None:
    for figure, gauge in GAUGE_OF.items():
        if figure in engines.GAUGES:
            table.engine(gauge.value, Kind.GAUGE, engines.GAUGES[figure].name)
        else:
            table.engine(gauge.value, Kind.GAUGE, engines.QUEUE.name, ("queue", engines.QUEUES[figure]))
    for counter, family in engines.COUNTERS.items():
        table.engine(counter.value, Kind.COUNTER, family.name)
    for counter, tier in engines.TIER_OF.items():
        table.engine(counter.value, Kind.COUNTER, engines.TIER_HITS.name, ("tier", tier))
    workers: Mapping[Gauge | Counter, str] = {
        **{gauge: family.name for gauge, family in engines.WORKER_GAUGES.items()},
        **{counter: family.name for counter, family in engines.WORKER_COUNTERS.items()},
    }
    for worker, name in workers.items():
        table.worker(worker.value, Kind.COUNTER if isinstance(worker, Counter) else Kind.GAUGE, name)
    for distribution, family in engines.HISTOGRAMS.items():
        table.histogram(distribution, family.name)


_KNOWN = _known()


class PastWords:
    """The language in which a Prometheus is asked for the past."""

    def __init__(self, place: Callable[[], PrometheusPlace]) -> None:
        """`place` is read at every call: a reload counts at once."""
        self._place = place

    def agents(self) -> str:
        """The selector of the series that say which host a target is."""
        return selector([AGENT_INFO], self._place().matchers)

    def series(self, metric: Metric, chosen: Iterable[Labels] = ()) -> str:
        """The selector of the metric's series: all, or little more than those chosen. Raises ValueError for none."""
        return exported(metric).selector(self._place().matchers, chosen)

    def ranks(self) -> str:
        """The selector of how many ranks each engine counts for."""
        return selector(["tidegate_engine_ranks"], self._place().matchers)

    def described(
        self, metric: Metric, found: Sequence[Labels], agents: Iterable[Labels]
    ) -> Sequence[Mapping[Label, str]]:
        """The labels of these series in our words; the host is empty where no target says it."""
        label = self._place().host_label
        hosts = {target_of(labels): host_of(labels, label) for labels in agents}
        how = exported(metric)
        return [
            how.words(labels, host_of(labels, label) if label else hosts.get(target_of(labels), "")) for labels in found
        ]
