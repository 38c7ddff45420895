"""One host as a tick sees it: what it said last, whether it is heard now, its readings of the window. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.model.command import Command, ExternalWish
from tidegate.model.fleet import ReplicaId
from tidegate.model.reading import EngineName, EngineReading, Gap, HostName, HostReading, Missing
from tidegate.model.records import ReplicaRecord
from tidegate.model.window import EngineWindow, engine_window, state_gap
from tidegate.wire import EngineStatus, HostRecord, HostState, ReplicaStatus


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much of the past counts as now."""

    view_window: timedelta
    """Over how much of the recent past signals and figures are taken."""
    stale_after: timedelta
    """A host silent for longer is missing."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine over the view window: worked out once a tick, for states, signals and figures alike."""

    readings: Sequence[EngineReading]
    """Oldest first."""
    window: EngineWindow | Missing
    gap: Gap | None
    """Why nothing can be said of it now; None when it can."""


_NEVER_SEEN = EngineView((), Missing(Gap.ONE_SCRAPE), Gap.NOT_REPORTED)


@dataclass(frozen=True, slots=True)
class HostView:
    """A host: `state` is what it said last, `heard` whether that is recent enough to count as now."""

    name: HostName
    heard: bool
    state: HostState
    readings: Sequence[HostReading] = ()
    """Of the view window, oldest first."""
    silence: Gap = Gap.STALE
    """Why there is no newer reading, when there is none."""
    confirmed: bool = False
    """True when the host has taken in everything that is wanted of it now."""
    replicas: Mapping[str, ReplicaStatus] = field(default_factory=dict)
    engines: Mapping[EngineName, EngineView] = field(default_factory=dict)

    def own_engines(self) -> Sequence[EngineStatus]:
        """The engines that the operator runs himself."""
        return [engine for engine in self.state.engines if not engine.replica_id]

    def engine(self, record: ReplicaRecord) -> EngineView:
        """The replica's engine; one without readings when the host reports none."""
        return self.engines.get(self._engine_name(record), _NEVER_SEEN)

    def _engine_name(self, record: ReplicaRecord) -> EngineName:
        if not record.managed:
            return EngineName(record.id.removeprefix(f"{self.name}/"))
        for engine in self.state.engines:
            if engine.replica_id == record.id:
                return EngineName(engine.name)
        return EngineName(record.id)


def unmanaged_id(host: HostName, engine: str) -> ReplicaId:
    """The id of an engine that Tidegate did not start."""
    return ReplicaId(f"{host}/{engine}")


ViewsOf = Callable[[HostName, Sequence[HostReading]], Mapping[EngineName, EngineView]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything a tick reads before it thinks."""

    hosts: Sequence[HostRecord]
    readings: Mapping[HostName, Sequence[HostReading]]
    records: Sequence[ReplicaRecord]
    """Every replica that is not stopped."""
    wanted: Mapping[HostName, tuple[int, int]] = field(default_factory=dict)
    """(epoch, revision) of what is wanted of each host now."""
    views_of: ViewsOf = field(default_factory=lambda: engine_views, kw_only=True)
    """Works out a host's engines over its readings, or remembers what came of it."""
    silent: Mapping[HostName, Gap] = field(default_factory=dict, kw_only=True)
    """Why there is nothing new of a host, where the source of readings says so."""
    commands: Sequence[Command] = ()
    """Operators' commands in force."""
    asked: Sequence[ExternalWish] = ()
    """What other programs asked for last."""


def host_views(sources: Sources, freshness: Freshness, now: datetime) -> dict[HostName, HostView]:
    """Every enrolled host that is not revoked, by name."""
    return {record.name: _view(record, sources, freshness, now) for record in sources.hosts if not record.revoked}


def _view(record: HostRecord, sources: Sources, freshness: Freshness, now: datetime) -> HostView:
    state = record.state or HostState()
    heard = record.state is not None and record.last_seen is not None
    wanted, readings = sources.wanted.get(record.name), sources.readings.get(record.name, ())
    return HostView(
        name=record.name,
        heard=heard and record.last_seen is not None and now - record.last_seen <= freshness.stale_after,
        state=state,
        readings=readings,
        silence=sources.silent.get(record.name, Gap.STALE if readings else Gap.NOT_REPORTED),
        confirmed=wanted is not None and (state.desired_epoch, state.desired_revision) >= wanted,
        replicas={status.replica_id: status for status in state.replicas},
        engines=sources.views_of(record.name, readings),
    )


def engine_views(_host: HostName, readings: Sequence[HostReading]) -> dict[EngineName, EngineView]:
    """Every engine in a host's readings, oldest first, over all of them."""
    found: dict[EngineName, list[EngineReading]] = {}
    for reading in readings:
        for engine in reading.engines:
            found.setdefault(engine.engine, []).append(engine)
    newest = {engine.engine for engine in readings[-1].engines} if readings else set()
    return {name: _engine_view(seen, present=name in newest) for name, seen in found.items()}


def _engine_view(readings: Sequence[EngineReading], *, present: bool) -> EngineView:
    window = engine_window(readings)
    if not present:
        return EngineView(readings, window, Gap.NOT_REPORTED)
    frozen = isinstance(window, EngineWindow) and not window.progressing  # a gauge that stands still is no value
    return EngineView(readings, window, Gap.STALE if frozen else state_gap(readings[-1].state))
