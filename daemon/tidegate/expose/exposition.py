"""Build Prometheus families against the table, and render them in the format that the scraper asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from tidegate.expose.families import FAMILIES, Family, Kind, Role
from tidegate.model.reading import Histogram, Missing

_LABEL_LIMIT = 256
"""A label longer than this is cut: one engine once put a 7 MB configuration into one."""


_openmetrics_text: Callable[[Collector], bytes] = openmetrics.generate_latest
_OPENMETRICS_VERSIONS = frozenset({"", "1.0.0", "0.0.1"})


class Collector(Protocol):
    """Anything whose `collect` yields families (prometheus_client's custom collector)."""

    def collect(self) -> Iterable[Metric]:
        """Yield every family with its samples."""
        ...


class Exposition:
    """One scrape's families for one role; refuses what the table does not declare.

    Every refusal is a ValueError: it is a fault of ours and must not reach a scraper silently.
    """

    def __init__(self, role: Role) -> None:
        self._role = role
        self._metrics: dict[str, Metric] = {}
        self._seen: set[tuple[str, ...]] = set()

    def add(self, name: str, labels: Mapping[str, str], value: float | Missing | None) -> None:
        """Add one sample of a gauge or a counter; a missing value adds nothing."""
        family = self._family(name, labels, Kind.GAUGE, Kind.COUNTER)
        if value is None or isinstance(value, Missing):
            return
        self._sample(family, family.name, labels, value)

    def one_of(self, name: str, labels: Mapping[str, str], label: str, states: Iterable[str], now: str) -> None:
        """Add a state set: 1 for the state `now` under `label`, 0 for each other state."""
        for state in states:
            self.add(name, {**labels, label: state}, 1.0 if state == now else 0.0)

    def quantile(self, name: str, labels: Mapping[str, str], q: float, value: float | Missing | None) -> None:
        """Add one quantile (q in 0..1) of a windowed summary; a missing value adds nothing."""
        family = self._family(name, labels, Kind.SUMMARY)
        if value is None or isinstance(value, Missing):
            return
        self._sample(family, family.name, {**labels, "quantile": _number(q)}, value)

    def histogram(self, name: str, labels: Mapping[str, str], histogram: Histogram) -> None:
        """Add a cumulative histogram; adds nothing when it has no +Inf bucket."""
        family = self._family(name, labels, Kind.HISTOGRAM)
        if not histogram.bounds or not math.isinf(histogram.bounds[-1]):
            return
        for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
            self._sample(family, f"{name}_bucket", {**labels, "le": _number(bound)}, count)
        self._sample(family, f"{name}_count", labels, histogram.counts[-1])
        self._sample(family, f"{name}_sum", labels, histogram.sum)

    def metrics(self) -> tuple[Metric, ...]:
        """Every family that has a sample, in the order of the table."""
        return tuple(self._metrics[name] for name in FAMILIES if name in self._metrics)

    def _family(self, name: str, labels: Mapping[str, str], *kinds: Kind) -> Family:
        family = FAMILIES.get(name)
        if family is None or family.kind not in kinds or not family.of(self._role):
            raise ValueError(f"{name} is not a {' or '.join(kinds)} of the {self._role} in expose/families.py")
        if set(labels) != set(family.labels):
            raise ValueError(f"{name} has the labels {sorted(family.labels)}, not {sorted(labels)}")
        return family

    def _sample(self, family: Family, sample: str, labels: Mapping[str, str], value: float) -> None:
        clean = {name: _clean(text) for name, text in labels.items()}
        key = (sample, *map(clean.__getitem__, family.labels), clean.get("le", clean.get("quantile", "")))
        if key in self._seen:
            raise ValueError(f"{sample}{clean} was added twice")
        self._seen.add(key)
        metric = self._metrics.get(family.name)
        if metric is None:
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
            self._metrics[family.name] = metric
        metric.add_sample(sample, clean, value)


def _number(value: float) -> str:
    """A number as a label value, the same in both formats."""
    return "+Inf" if math.isinf(value) else repr(float(value))


@lru_cache(4096)
def _clean(text: str) -> str:
    """A label value that encodes as UTF-8 and is of bounded length."""
    return text[:_LABEL_LIMIT].encode("utf-8", "replace").decode("utf-8")


def render(collector: Collector, accept: str = "") -> tuple[bytes, str]:
    """The exposition and its content type: OpenMetrics 1.0 when `accept` names it first, else text 0.0.4."""
    if prefers_openmetrics(accept):
        return _openmetrics_text(collector), openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(collector), CONTENT_TYPE_PLAIN_0_0_4


def prefers_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics is asked for: as prometheus_client decides, whose own choice fails on a strange version."""
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        versions = [text.removeprefix("version=") for text in parameters if text.startswith("version=")]
        if media == "application/openmetrics-text" and (not versions or versions[0] in _OPENMETRICS_VERSIONS):
            return True
        if media == "text/plain":
            return False
    return False
