"""Where each replica is in its life, from what was observed and never from what was asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from tidegate.controller.hostview import HostView, unmanaged_id
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, Want
from tidegate.model.reading import EngineState, HostName
from tidegate.model.records import ReplicaRecord
from tidegate.wire import EngineStatus, ReplicaStatus

_UNWANTED = frozenset({Want.DRAIN, Want.STOP})
_COMING = frozenset({ReplicaState.REQUESTED, ReplicaState.BOOTING, ReplicaState.LOADING})


def advance(record: ReplicaRecord, view: HostView | None, now: datetime) -> ReplicaRecord:
    """The record as observed now. A host that is not heard changes nothing: its replicas keep their state."""
    if view is None or not view.heard:
        return record
    if not record.managed:
        return _advance_unmanaged(record, view, now)
    status = view.replicas.get(record.id)
    if status is None:
        return _gone(record, view, now)
    state, at = _observed(record, status, view), _when(status.since, record, now)
    cut = max(record.cut_requests, status.cut_requests)
    return _enter(record if cut == record.cut_requests else replace(record, cut_requests=cut), state, at, status.why)


def abandon(record: ReplicaRecord, now: datetime) -> ReplicaRecord:
    """The record of a replica whose host was revoked: nothing will ever be heard of it again."""
    return _enter(record, ReplicaState.STOPPED, now, "the host was revoked")


def _gone(record: ReplicaRecord, view: HostView, now: datetime) -> ReplicaRecord:
    """A host that no longer names a replica has no such unit; that settles it only when it should be gone."""
    if record.want in _UNWANTED and view.confirmed:
        return _enter(record, ReplicaState.STOPPED, now, "the host has no such unit any more")
    return record


def _observed(record: ReplicaRecord, status: ReplicaStatus, view: HostView) -> ReplicaState:
    if status.state is ReplicaState.FAILED and record.want in _UNWANTED:
        return ReplicaState.STOPPED
    if status.state in _COMING:
        readings = view.engine(record).readings
        if readings and readings[-1].state is EngineState.READY:
            return ReplicaState.READY
    return status.state


def _when(since: float, record: ReplicaRecord, now: datetime) -> datetime:
    """The host's own moment of the change, held between the last change and now: its clock may be off."""
    try:
        at = datetime.fromtimestamp(since, UTC)
    except (OverflowError, ValueError, OSError):
        return now
    return min(now, max(at, record.since))


def _enter(record: ReplicaRecord, state: ReplicaState, at: datetime, why: str) -> ReplicaRecord:
    if state is record.state:  # nearly always, and nearly always for the same reason: the very record then
        return record if why == record.why else replace(record, why=why)
    return replace(
        record,
        state=state,
        since=at,
        why=why,
        ready_at=record.ready_at or (at if state is ReplicaState.READY else None),
        stopped_at=at if state is ReplicaState.STOPPED else None,
    )


def discover(
    view: HostView, known: Mapping[ReplicaId, ReplicaRecord], pools: Iterable[PoolName], now: datetime
) -> list[ReplicaRecord]:
    """Records for the operator's own engines of this host that have none yet, already at their observed state."""
    if not view.heard:
        return []
    wanted = frozenset(pools)
    fresh = [
        _first_record(view.name, engine, now)
        for engine in view.own_engines()
        if engine.pool in wanted and unmanaged_id(view.name, engine.name) not in known
    ]
    return [_advance_unmanaged(record, view, now) for record in fresh]


def _first_record(host: HostName, engine: EngineStatus, now: datetime) -> ReplicaRecord:
    return ReplicaRecord(
        id=unmanaged_id(host, engine.name),
        pool=PoolName(engine.pool),
        host=host,
        template="",
        slot=None,
        gpus=tuple(engine.gpu_indices),
        gpu_count=engine.gpus,
        port=_port(engine.url),
        want=Want.RUN,
        state=ReplicaState.REQUESTED,
        since=now,
        requested_at=now,
        managed=False,
    )


def _port(url: str) -> int:
    try:
        parts = urlsplit(url)
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return 0


def _advance_unmanaged(record: ReplicaRecord, view: HostView, now: datetime) -> ReplicaRecord:
    name = record.id.removeprefix(unmanaged_id(view.name, ""))
    engine = next((one for one in view.state.engines if one.name == name and not one.replica_id), None)
    if engine is None or engine.pool != record.pool:
        return _enter(record, ReplicaState.STOPPED, now, "the host no longer lists this engine in the pool")
    state, why = _unmanaged_state(record, engine, view)
    return _enter(record, state, now, why)


def _unmanaged_state(record: ReplicaRecord, engine: EngineStatus, view: HostView) -> tuple[ReplicaState, str]:
    """One failed scrape says little about an engine; none that succeeded in the whole window says that it is down."""
    readings = view.engine(record).readings
    states = [reading.state for reading in readings] or [_engine_state(engine.state)]
    if states[-1] is EngineState.READY:
        return ReplicaState.READY, ""
    if states[-1] is EngineState.STARTING:
        return ReplicaState.LOADING, "the engine is starting"
    if EngineState.READY in states and record.state is ReplicaState.READY:
        return ReplicaState.READY, f"last seen {states[-1].value}"
    if states[-1] is EngineState.UNREACHABLE:
        return ReplicaState.FAILED, "the engine is unreachable"
    if record.state is ReplicaState.REQUESTED:
        return ReplicaState.LOADING, f"the engine is {states[-1].value}"
    return record.state, f"the engine is {states[-1].value}"


def _engine_state(text: str) -> EngineState:
    return EngineState(text) if text in set(EngineState) else EngineState.FAILED
