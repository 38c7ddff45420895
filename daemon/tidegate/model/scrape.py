"""Samples as a Prometheus keeps them, and where that Prometheus is: the second source of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from tidegate.model.reading import HostName, HostReading

Labels = Mapping[str, str]


class Source(StrEnum):
    """Where samples come from."""

    AGENTS = "agents"
    """The agents' reports, kept in our own store."""
    PROMETHEUS = "prometheus"
    """A Prometheus (Thanos, Mimir, VictoriaMetrics) that scrapes the agents."""


@dataclass(frozen=True, slots=True)
class PrometheusPlace:
    """The `[prometheus]` table: how the second source is reached."""

    url: str = ""
    """The address below which /api/v1/query lies."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Sent with every request, a tenant's name and secrets among them; never logged."""
    ca_file: str = ""
    """Authorities that may vouch for the server; empty for those of the system."""
    timeout: timedelta = timedelta(seconds=10)
    """How long one query may take, its answer included."""
    most_bytes: int = 64 * 1024 * 1024
    """How large one answer may be, unpacked."""
    matchers: tuple[tuple[str, str], ...] = ()
    """Labels that every series must have: a cluster, a tenant, one of two Prometheus."""
    host_label: str = ""
    """The target's label that holds the host's enrolled name; empty: the agent's page says it."""


@dataclass(frozen=True, slots=True)
class SampleSeries:
    """One series: its labels (`__name__` among them) and its samples by time, in unix seconds of Prometheus' clock."""

    labels: Labels
    points: Sequence[tuple[float, float]]
    """NaN and infinities as they came."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the series, and what the server said of it (a part is missing, a function was doubtful)."""

    series: Sequence[SampleSeries]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scraped:
    """Readings rebuilt from samples, and what was left out."""

    readings: Mapping[HostName, Sequence[HostReading]]
    """By host, oldest first, one a collection of the agent."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Samples that became no figure, by reason: not_finite, conflicting, malformed."""
    nameless: tuple[str, ...] = ()
    """Targets that export our metrics and do not say which host they are."""
    ahead_seconds: float | None = None
    """How far the stamps of the samples are ahead of the agents' own moments, at the least; None without a reading."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How the second source does, for the page and the metrics."""

    hosts: int | None = None
    """Those with a reading in the last answer; None while there is no answer."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Samples of the last answer that became no figure, by reason."""
    notes: tuple[str, ...] = ()
