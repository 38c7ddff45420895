"""What a metric family is, and how one is declared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Prometheus metric types that we use."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """Quantiles over the trailing window, without sum and count: those stand in the histogram of the same stem."""


class Role(StrEnum):
    """Who exports a family."""

    AGENT = "agent"
    CONTROLLER = "controller"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family; `name` is the name as scraped (counters with `_total`)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    role: Role

    def of(self, role: Role) -> bool:
        """True when the role may export it."""
        return self.role in (role, Role.BOTH)


ENGINE = ("engine", "pool", "service", "replica", "traffic")
"""Every engine series: its name on this host, where it belongs (empty where the configuration says nothing), and the
class of its traffic (`production` or `test`)."""
GPU = ("uuid",)
POOL = ("pool",)


def gauge(name: str, text: str, *labels: str, role: Role = Role.AGENT) -> Family:
    """A gauge `tidegate_NAME`."""
    return Family(f"tidegate_{name}", Kind.GAUGE, text, labels, role)


def counter(name: str, text: str, *labels: str, role: Role = Role.AGENT) -> Family:
    """A counter `tidegate_NAME_total`."""
    return Family(f"tidegate_{name}_total", Kind.COUNTER, text, labels, role)
