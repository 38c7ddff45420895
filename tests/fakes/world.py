"""A fleet that obeys: it applies plans, starts take their time, and a load is spread over what is ready."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tidegate.decide.plan import plan
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import (
    STARTING_STATES,
    Fleet,
    PoolKind,
    PoolName,
    PoolView,
    Replica,
    ReplicaId,
    ReplicaState,
    ServiceName,
    Signal,
    SignalName,
    Slot,
    Value,
)
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy, Mode, PolicyName, PoolPolicy, ServicePolicy, TargetPolicy
from tidegate.model.reading import Gap, HostName, Missing

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
BASE, BURST, CHAT = PoolName("base"), PoolName("burst"), ServiceName("chat")
LONG_AGO = NOON - timedelta(days=1)


def pool(name: PoolName = BASE, low: int = 1, high: int = 4, **changes: object) -> PoolPolicy:
    """A pool of the service "chat"; burst when it is called so."""
    kind = PoolKind.BURST if name == BURST else PoolKind.BASE
    return replace(PoolPolicy(name, CHAT, kind, min=low, max=high), **changes)  # type: ignore[arg-type]


def policy(*pools: PoolPolicy, service: ServicePolicy | None = None, **changes: object) -> FleetPolicy:
    """A fleet policy that acts; by default a base pool of 1..4 and a burst pool of 0..8, 16 requests a replica."""
    found = pools or (pool(BASE, 1, 4), pool(BURST, 0, 8))
    chat = service or ServicePolicy(CHAT, policy=PolicyName.TARGET, target=TargetPolicy(in_flight_per_replica=16))
    made = FleetPolicy({CHAT: chat}, {one.name: one for one in found}, mode=Mode.ACT)
    return replace(made, **changes)  # type: ignore[arg-type]


def threshold(**changes: object) -> ServicePolicy:
    """The service under the utilisation threshold."""
    chat = ServicePolicy(CHAT, policy=PolicyName.THRESHOLD)
    return replace(chat, threshold=replace(chat.threshold, **changes))  # type: ignore[arg-type]


def replica(
    name: str,
    state: ReplicaState = ReplicaState.READY,
    *,
    in_flight: float | None = None,
    since: datetime = LONG_AGO,
    **changes: object,
) -> Replica:
    """A replica by its id, POOL-N."""
    owner = PoolName(name.rpartition("-")[0])
    signals = {} if in_flight is None else carrying(in_flight)
    made = Replica(ReplicaId(name), owner, HostName("h1"), state, since, since, gpus=1, signals=signals)
    return replace(made, **changes)  # type: ignore[arg-type]


def carrying(in_flight: float) -> Mapping[SignalName, Signal]:
    """Signals of a replica with so many requests, all of them running."""
    return {SignalName.RUNNING: Value(in_flight), SignalName.WAITING: Value(0.0)}


def slots(pool_name: PoolName, count: int) -> tuple[Slot, ...]:
    """Free places that only this pool offers."""
    host = HostName(f"host-of-{pool_name}")
    return tuple(Slot(host, number, (number,), 8100 + number) for number in range(count))


def fleet(*replicas: Replica, free: Mapping[PoolName, int] | None = None, now: datetime = NOON) -> Fleet:
    """A fleet of these replicas; pools without an entry in `free` have ten free places."""
    offered = {BASE: 10, BURST: 10, **(free or {})}
    views = {
        name: PoolView(name, tuple(one for one in replicas if one.pool == name), slots(name, count))
        for name, count in offered.items()
    }
    return Fleet(now, views)


def applied(replicas: Iterable[Replica], actions: Iterable[Action], now: datetime) -> list[Replica]:
    """The replicas after these actions took effect."""
    found = {one.id: one for one in replicas}
    for action in actions:
        match action.kind:
            case ActionKind.START:
                assert action.replica not in found
                made = replica(action.replica, ReplicaState.REQUESTED, since=now, deadline=action.deadline)
                assert action.slot is not None
                found[action.replica] = replace(made, host=action.slot.host, slot=action.slot.slot)
            case ActionKind.DRAIN:
                assert found[action.replica].state is ReplicaState.READY
                found[action.replica] = replace(
                    found[action.replica], state=ReplicaState.DRAINING, since=now, deadline=action.deadline
                )
            case ActionKind.RESUME:
                found[action.replica] = replace(found[action.replica], state=ReplicaState.READY, since=now)
            case ActionKind.CANCEL | ActionKind.GIVE_UP:
                del found[action.replica]
    return list(found.values())


class World:
    """Time passes by `tick`: the load is spread, the plan is made and applied at once."""

    def __init__(self, made: FleetPolicy, *replicas: Replica, start: float = 240, free: int = 10) -> None:
        self.policy = made
        self.replicas = list(replicas)
        self.start = timedelta(seconds=start)
        self.free = free
        self.now = NOON
        self.memory = Memory(started_at=LONG_AGO)
        self.silent: frozenset[str] = frozenset()
        self.stuck = False
        """True when nothing that is started ever becomes ready."""
        self.history: list[Plan] = []

    def tick(self, load: float, seconds: float = 15) -> Plan:
        """Let time pass, then plan and act. `load` is in requests in flight, and in GPUs' worth of work."""
        self.now += timedelta(seconds=seconds)
        self._live()
        made = plan(self.fleet(load), self.policy, self.memory, self.now)
        self.memory = made.memory
        self.replicas = applied(self.replicas, made.actions, self.now)
        self.history.append(made)
        return made

    def run(self, load: float, ticks: int, seconds: float = 15) -> Plan:
        """So many ticks under the same load."""
        for _ in range(ticks):
            last = self.tick(load, seconds)
        return last

    def _live(self) -> None:
        alive: list[Replica] = []
        for one in self.replicas:
            if one.state in STARTING_STATES and not self.stuck and self.now - one.requested_at >= self.start:
                alive.append(replace(one, state=ReplicaState.READY, since=self.now))
            elif one.state is not ReplicaState.DRAINING or self.now - one.since < timedelta(seconds=60):
                alive.append(one)
        self.replicas = alive

    def fleet(self, load: float) -> Fleet:
        """The fleet with the load spread evenly over ready replicas."""
        ready = [one.id for one in self.replicas if one.state is ReplicaState.READY]
        share = load / len(ready) if ready else 0.0
        seen = [replace(one, signals=self._signals(one, share)) for one in self.replicas]
        offered: dict[PoolName, tuple[Slot, ...]] = {}
        for name in self.policy.pools:
            held = {one.slot for one in seen if one.pool == name}
            offered[name] = tuple(slot for slot in slots(name, self.free) if slot.slot not in held)
        views = {
            name: PoolView(name, tuple(one for one in seen if one.pool == name), offered[name])
            for name in self.policy.pools
        }
        return Fleet(self.now, views)

    def _signals(self, one: Replica, share: float) -> Mapping[SignalName, Signal]:
        if one.state is not ReplicaState.READY:
            return {}
        if one.id in self.silent:
            return dict.fromkeys(SignalName, Missing(Gap.UNREACHABLE))
        return {**carrying(share), SignalName.GPU_UTILIZATION: Value(min(1.0, share))}

    def count(self, *states: ReplicaState) -> int:
        """How many replicas are in one of these states."""
        return sum(one.state in states for one in self.replicas)

    @property
    def sizes(self) -> list[int]:
        """The supply of the whole fleet at each tick so far."""
        return [sum(decision.current for decision in made.decisions) for made in self.history]


def decision(made: Plan, name: PoolName) -> Decision:
    """The decision of one pool."""
    return next(one for one in made.decisions if one.pool == name)


def kinds(made: Plan) -> list[str]:
    """The actions as words: "start base-2"."""
    return [f"{action.kind.value} {action.replica}" for action in made.actions]
