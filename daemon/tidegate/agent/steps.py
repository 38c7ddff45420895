"""Decide what to do with each unit: `observe` remembers what was seen, `steps` says what follows. Pure.

The rules: start what should run, once; cordon and drain by waiting until the engine is idle or the deadline is over;
stop what should stop or is not desired any more; never restart what died, the controller decides that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.agent.desired_state import Kept, KeptReplica
from tidegate.model.fleet import LEAVING_STATES, ReplicaState, Want
from tidegate.model.reading import EngineName, EngineReading, EngineState, Gauge, Missing
from tidegate.model.target import UnitStatus
from tidegate.model.window import gauge
from tidegate.wire import Desired, DesiredReplica

Readings = Mapping[EngineName, Sequence[EngineReading]]
"""The recent readings of each engine, oldest first; a replica's engine bears the replica's id."""

Statuses = Mapping[str, UnitStatus]
"""What the host says of each unit of ours, by replica id."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start the replica's unit."""

    replica: DesiredReplica


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell a unit to stop, or forget one that has ended."""

    replica_id: str
    slot: int
    template: str
    in_flight: float | None = None
    """Requests that are cut by it; None when not known."""
    why: str = ""


Step = Start | Stop


@dataclass(frozen=True, slots=True)
class Now:
    """The moment by the host's clock and by the controller's, in which deadlines are told."""

    ours: datetime
    controllers: datetime


def newer(desired: Desired, present: Desired | None) -> bool:
    """True when `desired` replaces `present`: a higher term, or a higher revision of the same one."""
    return present is None or (desired.epoch, desired.revision) > (present.epoch, present.revision)


def in_flight(readings: Sequence[EngineReading]) -> float | None:
    """Running plus waiting requests of the last reading, or as many as its web server holds if that is more.

    None when it does not say. Requests whose KV cache is on its way to a decode engine are in flight, too.
    """
    if not readings:
        return None
    running, waiting = gauge(readings[-1], Gauge.RUNNING), gauge(readings[-1], Gauge.QUEUE_DEPTH)
    if isinstance(running, Missing) or isinstance(waiting, Missing):
        return None
    moving, held = gauge(readings[-1], Gauge.PREFILL_INFLIGHT_QUEUE), gauge(readings[-1], Gauge.HELD)
    total = running + waiting + (0.0 if isinstance(moving, Missing) else moving)
    return total if isinstance(held, Missing) else max(total, held)


def idle_since(readings: Sequence[EngineReading], since: datetime) -> bool:
    """True when the last two readings, both made after `since`, say that nothing runs and nothing waits."""
    last = readings[-2:]
    return len(last) == 2 and all(
        reading.at > since and reading.state is EngineState.READY and in_flight([reading]) == 0.0 for reading in last
    )


def accepted(kept: Kept, desired: Desired, now: datetime) -> Kept:
    """Take in a newer desired state, so that what is reported from now on names every replica of it."""
    replicas = {}
    for replica in desired.replicas:
        before = kept.replicas.get(replica.replica_id)
        fresh = before or KeptReplica(replica=replica, state=ReplicaState.REQUESTED, since=now)
        replicas[replica.replica_id] = fresh.model_copy(update={"replica": replica})
    return kept.model_copy(update={"desired": desired, "replicas": replicas})


def observe(kept: Kept, statuses: Statuses, readings: Readings, now: datetime) -> Kept:
    """What is known of every desired replica after this look."""
    replicas = {
        name: _seen(before, statuses, readings.get(EngineName(name), ()), now) for name, before in kept.replicas.items()
    }
    return kept.model_copy(update={"replicas": replicas})


def _seen(before: KeptReplica, statuses: Statuses, readings: Sequence[EngineReading], now: datetime) -> KeptReplica:
    status = statuses.get(before.replica.replica_id)
    leaving = None if before.replica.want is Want.RUN else before.leaving_since or now
    ready_at = _ready_at(before, status, readings)
    after = before.model_copy(update={"leaving_since": leaving, "ready_at": ready_at})
    state, why = _state(after, status)
    other = holder(before.replica, statuses) if state is ReplicaState.REQUESTED else None
    why = f"waits: {other} still holds its slot or GPUs" if other else why
    since = before.since if state is before.state else now
    started_at = None if state in (ReplicaState.REQUESTED, ReplicaState.STOPPED) else before.started_at
    return after.model_copy(update={"state": state, "why": why, "since": since, "started_at": started_at})


def _ready_at(before: KeptReplica, status: UnitStatus | None, readings: Sequence[EngineReading]) -> datetime | None:
    if status is None or status.state in (ReplicaState.STOPPED, ReplicaState.FAILED):
        return None
    if before.ready_at is None and status.state is ReplicaState.LOADING and readings:
        return readings[-1].at if readings[-1].state is EngineState.READY else None
    return before.ready_at


def _state(kept: KeptReplica, status: UnitStatus | None) -> tuple[ReplicaState, str]:
    if status is None:
        return _state_without_unit(kept)
    if status.state is ReplicaState.STOPPED:
        return (ReplicaState.REQUESTED, "starts again") if kept.replica.want is Want.RUN else (status.state, kept.why)
    if status.state is ReplicaState.FAILED:
        ended = kept.replica.want in (Want.DRAIN, Want.STOP)
        return (ReplicaState.STOPPED if ended else ReplicaState.FAILED), status.why
    if status.state is ReplicaState.DRAINING or kept.replica.want in (Want.DRAIN, Want.STOP):
        return ReplicaState.DRAINING, status.why or kept.why
    if kept.replica.want is Want.CORDON:
        return ReplicaState.CORDONED, ""
    return (ReplicaState.READY, "") if kept.ready_at is not None else (status.state, status.why)


def _state_without_unit(kept: KeptReplica) -> tuple[ReplicaState, str]:
    if kept.replica.want in (Want.DRAIN, Want.STOP):
        return ReplicaState.STOPPED, kept.why
    if kept.start_error:
        return ReplicaState.FAILED, kept.start_error
    if kept.started_at is not None and kept.state not in LEAVING_STATES | {ReplicaState.STOPPED}:
        return ReplicaState.FAILED, "its unit is gone and left no record"
    return ReplicaState.REQUESTED, kept.why


def steps(
    kept: Kept, statuses: Statuses, readings: Readings, grace: Mapping[str, timedelta], now: datetime
) -> tuple[Step, ...]:
    """What to do now, stops before starts. `grace` is the drain grace of each template, `now` the host's clock.

    Without a desired state there is nothing to do: units that an earlier agent started run on.
    """
    if kept.desired is None:
        return ()
    both = Now(now, now + timedelta(seconds=kept.clock_offset_seconds))
    stops: list[Step] = []
    for status in statuses.values():
        known = kept.replicas.get(status.replica_id)
        seen = readings.get(EngineName(status.replica_id), ())
        why = "not desired any more" if known is None else _why_stop(known, status, seen, grace, both)
        if why:
            stops.append(Stop(status.replica_id, status.slot, status.template, in_flight(seen), why))
    starts = [Start(one.replica) for one in kept.replicas.values() if _should_start(one, statuses)]
    return (*stops, *starts)


def _why_stop(
    known: KeptReplica,
    status: UnitStatus,
    readings: Sequence[EngineReading],
    grace: Mapping[str, timedelta],
    now: Now,
) -> str:
    """Why the unit is to be told to stop now; empty when it is not."""
    want = known.replica.want
    if status.state is ReplicaState.DRAINING:
        return "told to stop before"  # again, so that a SIGKILL follows where it must
    if want is Want.STOP:
        return "stopped as asked"
    return _why_drained(known, status, readings, grace, now) if want is Want.DRAIN else ""


def _why_drained(
    known: KeptReplica,
    status: UnitStatus,
    readings: Sequence[EngineReading],
    grace: Mapping[str, timedelta],
    now: Now,
) -> str:
    if status.state in (ReplicaState.FAILED, ReplicaState.STOPPED):
        return "ended while it was drained"
    if known.ready_at is None:
        return "drained: it never served"
    quiet_from = (known.leaving_since or now.ours) + grace.get(known.replica.template, timedelta())
    if idle_since(readings, quiet_from):
        return "drained: idle in two readings"
    deadline = known.replica.deadline
    if deadline is not None and now.controllers >= datetime.fromtimestamp(deadline, UTC):
        return "the drain's deadline is over"
    return ""


def _should_start(known: KeptReplica, statuses: Statuses) -> bool:
    replica = known.replica
    if replica.want is not Want.RUN or known.start_error:
        return False
    status = statuses.get(replica.replica_id)
    if status is not None and status.state is not ReplicaState.STOPPED:
        return False
    return known.state is ReplicaState.REQUESTED and holder(replica, statuses) is None


def holder(replica: DesiredReplica, statuses: Statuses) -> str | None:
    """Another unit that still holds the replica's slot or one of its GPUs: two engines never share one."""
    for status in statuses.values():
        if status.replica_id != replica.replica_id and (
            status.slot == replica.slot or not set(status.gpus).isdisjoint(replica.gpus)
        ):
            return status.replica_id
    return None
