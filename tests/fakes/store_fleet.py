"""Replicas and decisions in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, Want
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import DecisionRecord, Outcome, PoolFigures, ReplicaRecord
from tidegate.model.usage import Holding
from tidegate.wire import Desired, DesiredReplica

_FIXED = ("want", "requested_at", "deadline", "template", "slot", "flavour")
_WISHED = (*_FIXED, "pool", "host", "gpus", "gpu_count", "port")


class FakeReplicas:
    """Replicas in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[ReplicaId, ReplicaRecord] = {}
        self.services: dict[ReplicaId, str] = {}
        self.revisions: dict[HostName, int] = {}
        self.epoch = 0

    def load(self) -> Sequence[ReplicaRecord]:
        live = [record for record in self.records.values() if record.state is not ReplicaState.STOPPED]
        return sorted(live, key=lambda record: (record.pool, _serial(record), record.id))

    def next_serials(self) -> Mapping[PoolName, int]:
        serials: dict[PoolName, int] = {}
        for record in self.records.values():
            serials[record.pool] = max(serials.get(record.pool, 1), _serial(record) + 1)
        return serials

    def apply(self, actions: Sequence[Action], policy: FleetPolicy, now: datetime) -> frozenset[HostName]:
        touched = set()
        for action in actions:
            host = self._start(action, policy, now) if action.kind is ActionKind.START else self._turn(action)
            if host is not None:
                touched.add(host)
        self._raise(touched)
        return frozenset(touched)

    def _raise(self, hosts: Iterable[HostName]) -> None:
        for host in hosts:
            self.revisions[host] = self.revisions.get(host, 0) + 1

    def _start(self, action: Action, policy: FleetPolicy, now: datetime) -> HostName | None:
        if action.slot is None:
            raise ValueError(f"the start of {action.replica} names no slot")
        if action.replica in self.records:
            return None
        pool, slot = policy.pools[action.pool], action.slot
        self.services[action.replica] = pool.service
        self.records[action.replica] = ReplicaRecord(
            id=action.replica,
            pool=action.pool,
            host=slot.host,
            template=pool.flavour_of(slot.flavour).template,
            slot=slot.slot,
            gpus=slot.gpus,
            gpu_count=pool.gpus_per_replica,
            port=slot.port,
            want=Want.RUN,
            state=ReplicaState.REQUESTED,
            since=now,
            requested_at=now,
            deadline=action.deadline,
            why=action.reason,
            flavour=slot.flavour,
        )
        return slot.host

    def _turn(self, action: Action) -> HostName | None:
        record = self.records.get(action.replica)
        want = {ActionKind.DRAIN: Want.DRAIN, ActionKind.RESUME: Want.RUN}.get(action.kind, Want.STOP)
        if record is None or not record.managed or record.state is ReplicaState.STOPPED or record.want is want:
            return None
        self.records[record.id] = replace(record, want=want, deadline=action.deadline, why=action.reason)
        return record.host

    def observe(self, seen: Sequence[ReplicaRecord]) -> None:
        gone = set()
        for record in seen:
            known = self.records.get(record.id)
            if known is None:
                self.records[record.id] = record
                continue
            if known.managed is not record.managed:
                continue
            if known.managed and (known.state is ReplicaState.STOPPED) != (record.state is ReplicaState.STOPPED):
                gone.add(known.host)
            kept = _WISHED if known.managed else _FIXED
            self.records[record.id] = replace(record, **{name: getattr(known, name) for name in kept})
        self._raise(gone)

    def desired(self, host: HostName) -> Desired:
        wanted = [
            DesiredReplica(
                replica_id=record.id,
                pool=record.pool,
                service=self.services.get(record.id, ""),
                template=record.template,
                slot=record.slot or 0,
                gpus=list(record.gpus),
                port=record.port,
                want=record.want,
                deadline=record.deadline.timestamp() if record.deadline else None,
            )
            for record in self.load()
            if record.host == host and record.managed
        ]
        return Desired(epoch=self.epoch, revision=self.revisions.get(host, 0), replicas=wanted)

    def positions(self) -> Mapping[HostName, tuple[int, int]]:
        return {host: (self.epoch, revision) for host, revision in self.revisions.items()}

    def holdings(self, since: datetime, until: datetime, policy: FleetPolicy) -> Sequence[Holding]:
        result = []
        for record in self.records.values():
            failed_at = record.since if record.state is ReplicaState.FAILED else None
            ended = record.stopped_at or failed_at or until
            start, end = max(record.requested_at, since), min(ended, until)
            if start < end:
                pool = policy.pools.get(record.pool)
                price = pool.flavour_of(record.flavour).price_per_gpu_hour if pool else None
                currency = pool.flavour_of(record.flavour).currency if pool else ""
                held = Holding(record.id, record.pool, record.gpu_count, start, end, price, currency, record.host)
                result.append(held)
        return sorted(result, key=lambda holding: (holding.start, holding.replica))


def _serial(record: ReplicaRecord) -> int:
    digits = record.id.removeprefix(f"{record.pool}-")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


class FakeDecisions:
    """The log in lists."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.actions: list[tuple[datetime, Action]] = []
        self.outcomes: dict[int, str] = {}
        self.kept = Memory()
        self.rows: dict[tuple[datetime, PoolName], PoolFigures] = {}

    def record(self, plan: Plan) -> Sequence[int]:
        if plan.actions and not plan.decisions:
            raise ValueError("a plan with actions and no decision explains nothing")
        written = {(decision.pool, decision.at) for decision in self.decisions}
        self.decisions += [decision for decision in plan.decisions if (decision.pool, decision.at) not in written]
        return [self._record_action(plan.decisions[0].at, action) for action in plan.actions]

    def _record_action(self, at: datetime, action: Action) -> int:
        for number, (earlier, known) in enumerate(self.actions, start=1):
            if (earlier, known.kind, known.replica) == (at, action.kind, action.replica):
                return number
        self.actions.append((at, action))
        return len(self.actions)

    def settle(self, outcomes: Sequence[Outcome], memory: Memory, figures: Sequence[PoolFigures]) -> None:
        self.outcomes |= {outcome.action_id: outcome.outcome for outcome in outcomes}
        self.kept = memory
        self.rows |= {(row.at, row.pool): row for row in figures}

    def memory(self) -> Memory:
        return self.kept

    def latest(
        self, limit: int, pool: PoolName | None = None, *, changes_only: bool = False
    ) -> Sequence[DecisionRecord]:
        acted = {(at, action.pool) for at, action in self.actions}
        return [
            DecisionRecord(number, decision)
            for number, decision in reversed(list(enumerate(self.decisions, start=1)))
            if pool in (None, decision.pool) and (not changes_only or (decision.at, decision.pool) in acted)
        ][:limit]

    def figures(self, since: datetime, until: datetime) -> Sequence[PoolFigures]:
        return [self.rows[key] for key in sorted(self.rows) if since <= key[0] < until]
