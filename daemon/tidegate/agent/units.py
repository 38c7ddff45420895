"""The loop that makes the host's units what the controller wants: look, remember, decide (`agent/steps.py`), do.

A crash anywhere is harmless: the next round looks again. When the controller is silent the last desired state stands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

import structlog

from tidegate.agent.desired_state import KeptFile, KeptReplica
from tidegate.agent.ports import EngineTarget, Units, UnitStatus
from tidegate.agent.steps import Readings, Start, Step, Stop, accepted, in_flight, newer, observe, steps
from tidegate.model.fleet import ReplicaState
from tidegate.model.reading import EngineName
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import Desired, DesiredReplica, ReplicaStatus

_log = structlog.get_logger()

_START_TIME = timedelta(minutes=10)
"""How long an engine may take to answer where the desired state names no deadline."""
_TOLERATED_OFFSET = timedelta(seconds=60)
"""Between the clocks: deadlines are minutes long."""
_LIVING = frozenset({ReplicaState.BOOTING, ReplicaState.LOADING, ReplicaState.DRAINING})


@dataclass(frozen=True, slots=True)
class Manners:
    """What the configuration says of the units."""

    target: Callable[[DesiredReplica], EngineTarget | None]
    """Where a replica's engine is scraped; None when its template is not configured any more."""
    drain_grace: Mapping[str, timedelta]
    """By template."""


class Replicas:
    """The replicas of this host. `offer` and the questions are for any thread, `reconcile` is for one."""

    def __init__(self, units: Units, file: KeptFile, manners: Manners, clock: Clock) -> None:
        self._units, self._file, self._manners, self._clock = units, file, manners, clock
        self._kept = file.load()
        self._saved = self._kept
        self._statuses: Mapping[str, UnitStatus] = MappingProxyType({})
        self._targets: dict[str, EngineTarget] = {}
        self._offered: Desired | None = None
        self._offset_seconds = self._kept.clock_offset_seconds
        self._refused = (0, 0)
        self._troubles: dict[str, str] = {}
        """What was said of a unit that would not start or stop, until it does: the same again is not."""
        self._lock = threading.Lock()
        self.wake = threading.Event()
        """Set when there is something to reconcile at once."""

    def use(self, manners: Manners) -> None:
        """Take on a reloaded configuration."""
        self._manners = manners
        self.wake.set()

    def offer(self, desired: Desired) -> bool:
        """Take in a desired state; False (and said) when it is of an earlier term or revision than the one in force."""
        with self._lock:
            present = self._offered or self._kept.desired
            if newer(desired, present):
                self._offered = desired
                self.wake.set()
                return True
        refused = (desired.epoch, desired.revision)
        if present is not None and refused < (present.epoch, present.revision) and refused != self._refused:
            self._refused = refused
            _log.warning(
                "desired state refused",
                epoch=desired.epoch,
                revision=desired.revision,
                in_force=f"epoch {present.epoch}, revision {present.revision}",
                remedy="if the controller lost its database for good, stop the agent and remove its desired.json",
            )
        return False

    def clock_offset(self, offset: timedelta) -> None:
        """Note how far the controller's clock is ahead of ours; small ones are taken as none."""
        # In steps of ten seconds, so that its jitter is not written to disk with every report.
        self._offset_seconds = round(offset.total_seconds(), -1) if abs(offset) > _TOLERATED_OFFSET else 0.0

    def position(self) -> tuple[int, int]:
        """Epoch and revision of the desired state that the reported replicas follow; (0, 0) without one."""
        desired = self._kept.desired
        return (desired.epoch, desired.revision) if desired else (0, 0)

    def targets(self) -> Sequence[EngineTarget]:
        """The engines of the units that live, to be scraped."""
        return [
            self._targets[status.replica_id]
            for status in self._statuses.values()
            if status.state in _LIVING and status.replica_id in self._targets
        ]

    def units(self) -> Sequence[UnitStatus]:
        """Every unit of ours, as the host last told of it."""
        return list(self._statuses.values())

    def starting(self) -> frozenset[EngineName]:
        """Engines that may still be silent: ours, never ready, within their start time."""
        now = self._clock.now().timestamp() + self._offset_seconds
        return frozenset(EngineName(name) for name, kept in self._kept.replicas.items() if _may_be_silent(kept, now))

    def states(self) -> Mapping[str, ReplicaState]:
        """The state of every replica."""
        return {name: kept.state for name, kept in self._kept.replicas.items()}

    def report(self, readings: Readings) -> list[ReplicaStatus]:
        """Every replica as the controller is told of it."""
        return [
            ReplicaStatus(
                replica_id=name,
                state=kept.state,
                since=kept.since.timestamp(),
                in_flight=in_flight(readings.get(EngineName(name), ())),
                cut_requests=kept.cut_requests,
                why=kept.why,
            )
            for name, kept in self._kept.replicas.items()
        ]

    def reconcile(self, readings: Readings) -> tuple[Step, ...]:
        """One round; returns the steps that were due. Raises Transient when the host cannot say what runs."""
        self.look()
        now, statuses = self._clock.now(), self._statuses
        with self._lock:
            offered, self._offered = self._offered, None
            kept = self._kept.model_copy(update={"clock_offset_seconds": self._offset_seconds})
            kept = kept if offered is None else accepted(kept, offered, now)
            kept = observe(kept, statuses, readings, now)
            self._kept = kept
        self._refresh_targets()
        self._save()  # before acting: what was asked must survive us
        due = steps(kept, statuses, readings, self._manners.drain_grace, now)
        for step in due:
            self._carry_out(step)
        self._save()
        return due

    def look(self) -> None:
        """See what runs, so that a new agent watches the engines of an earlier one at once. Raises as `reconcile`."""
        self._statuses = MappingProxyType({status.replica_id: status for status in self._units.statuses()})
        self._refresh_targets()

    def _save(self) -> None:
        if self._kept != self._saved:
            self._file.save(self._kept)
            self._saved = self._kept

    def _refresh_targets(self) -> None:
        fresh = {name: self._manners.target(known.replica) for name, known in self._kept.replicas.items()}
        known = {name: target for name, target in self._targets.items() if name in self._statuses}
        self._targets = known | {name: target for name, target in fresh.items() if target is not None}

    def _carry_out(self, step: Step) -> None:
        match step:
            case Start(replica=replica):
                self._start(replica)
            case Stop():
                self._stop(step)

    def _start(self, replica: DesiredReplica) -> None:
        log = _log.bind(replica=replica.replica_id, template=replica.template, slot=replica.slot)
        now = self._clock.now()
        try:
            self._units.start(replica)
        except Permanent as error:
            why = str(error)
            log.error("unit cannot be started", error=why)
            self._note(replica.replica_id, state=ReplicaState.FAILED, since=now, start_error=why, why=why)
        except Transient as error:
            if self._is_news(replica.replica_id, str(error)):
                log.warning("unit not started yet", error=str(error))
            self._note(replica.replica_id, why=str(error))
        else:
            self._troubles.pop(replica.replica_id, None)
            log.info("unit started", port=replica.port, gpus=replica.gpus)
            self._note(replica.replica_id, state=ReplicaState.BOOTING, since=now, started_at=now, why="")

    def _stop(self, step: Stop) -> None:
        log = _log.bind(replica=step.replica_id, slot=step.slot, why=step.why)
        before = self._statuses[step.replica_id].state
        try:
            self._units.stop(step.replica_id, step.slot, step.template)
        except (Permanent, Transient) as error:
            if self._is_news(step.replica_id, str(error)):
                log.error("unit not stopped", error=str(error))
            self._note(step.replica_id, why=str(error))
            return
        self._troubles.pop(step.replica_id, None)
        if before in (ReplicaState.BOOTING, ReplicaState.LOADING):
            cut = int(step.in_flight or 0)
            known = "" if step.in_flight is not None else " (requests in flight not known)"
            log.info("unit told to stop", cut_requests=cut, in_flight=step.in_flight)
            self._note(step.replica_id, cut_requests=cut, why=f"{step.why}{known}")

    def _is_news(self, replica_id: str, trouble: str) -> bool:
        before = self._troubles.get(replica_id)
        self._troubles[replica_id] = trouble
        return trouble != before

    def _note(self, replica_id: str, **changes: object) -> None:
        with self._lock:
            known = self._kept.replicas.get(replica_id)
            if known is not None:
                replicas = {**self._kept.replicas, replica_id: known.model_copy(update=changes)}
                self._kept = self._kept.model_copy(update={"replicas": replicas})


def _may_be_silent(kept: KeptReplica, controllers_now: float) -> bool:
    if kept.started_at is None or kept.ready_at is not None:
        return False
    return controllers_now < (kept.replica.deadline or (kept.started_at + _START_TIME).timestamp())
