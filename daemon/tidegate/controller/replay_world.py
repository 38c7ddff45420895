"""A fleet that might have been: replicas that a plan starts and drains, under the load that was recorded. Pure.

What each replica would have done is reckoned from what all of them did: requests and tokens are shared out evenly, and
the speed of answers follows TPOT = t0 / (1 - w) with w the share of a replica's capacity in use (the steady state of a
continuous batch); t0 is the fastest that was recorded. It tells more from less, not one millisecond from another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.model.decision import Action, ActionKind
from tidegate.model.fleet import (
    STARTING_STATES,
    PoolName,
    PoolView,
    Replica,
    ReplicaId,
    ReplicaState,
    Signal,
    SignalName,
    Slot,
    Value,
)
from tidegate.model.policy import PoolPolicy
from tidegate.model.reading import Gap, HostName, Missing

DRAIN = timedelta(seconds=60)
"""How long a replica takes to come to its end where nothing was recorded."""
_BUSIEST = 0.98
_SILENT = Missing(Gap.NOT_REPORTED)


@dataclass(frozen=True, slots=True)
class Load:
    """What a group of pools had to do at one tick, summed; None is missing."""

    ready: int = 0
    """Replicas that did it."""
    running: float | None = None
    waiting: float | None = None
    prompt: float | None = None
    generated: float | None = None
    kv_usage: float | None = None
    gpu_utilization: float | None = None
    ttft: float | None = None
    tpot: float | None = None

    @property
    def tokens(self) -> float:
        """How much the tick weighs."""
        return (self.prompt or 0.0) + (self.generated or 0.0)


@dataclass(slots=True)
class Fleet:
    """The replicas of one pool that might have been."""

    policy: PoolPolicy
    start: timedelta
    replicas: dict[ReplicaId, Replica]

    @classmethod
    def begun(cls, policy: PoolPolicy, start: timedelta, ready: int, at: datetime) -> Fleet:
        """With as many ready replicas as were recorded."""
        long_ago = at - timedelta(hours=1)
        made = [ReplicaId(f"{policy.name}-{number}") for number in range(1, ready + 1)]
        return cls(policy, start, {name: _replica(policy, name, ReplicaState.READY, long_ago) for name in made})

    def live(self, now: datetime) -> None:
        """Starts come to their end, and so do drains."""
        for name, one in list(self.replicas.items()):
            if one.state in STARTING_STATES and now - one.requested_at >= self.start:
                self.replicas[name] = replace(one, state=ReplicaState.READY, since=now)
            elif one.state is ReplicaState.DRAINING and now - one.since >= DRAIN:
                del self.replicas[name]

    def obey(self, actions: Iterable[Action], now: datetime) -> None:
        """Carry out the plan's actions on this pool."""
        for action in actions:
            match action.kind:
                case ActionKind.START:
                    made = _replica(self.policy, action.replica, ReplicaState.BOOTING, now)
                    flavour = action.slot.flavour if action.slot else ""
                    self.replicas[action.replica] = replace(made, flavour=flavour, deadline=action.deadline)
                case ActionKind.DRAIN:
                    self._turn(action, ReplicaState.DRAINING, now)
                case ActionKind.RESUME:
                    self._turn(action, ReplicaState.READY, now)
                case ActionKind.CANCEL | ActionKind.GIVE_UP:
                    self.replicas.pop(action.replica, None)

    def _turn(self, action: Action, state: ReplicaState, now: datetime) -> None:
        self.replicas[action.replica] = replace(self.replicas[action.replica], state=state, since=now)

    @property
    def ready(self) -> int:
        """Replicas that serve."""
        return sum(one.state is ReplicaState.READY for one in self.replicas.values())

    @property
    def supply(self) -> int:
        """Replicas that serve or will."""
        return self.ready + sum(one.state in STARTING_STATES for one in self.replicas.values())

    def view(self, signals: Mapping[SignalName, Signal]) -> PoolView:
        """The pool as a tick sees it; every ready replica says the same of itself."""
        seen = tuple(
            replace(one, signals=signals if one.state is ReplicaState.READY else {}) for one in self.replicas.values()
        )
        return PoolView(self.policy.name, seen, self._places())

    def _places(self) -> tuple[Slot, ...]:
        """Places without end, of each flavour in order: where hosts would have been full is not known."""
        free = max(0, self.policy.max - self.supply)
        return tuple(
            Slot(HostName(f"{self.policy.name}/{flavour.name}"), number, (number,), number, flavour.name)
            for flavour in self.policy.flavours
            for number in range(free)
        )


def _replica(policy: PoolPolicy, name: ReplicaId, state: ReplicaState, at: datetime) -> Replica:
    return Replica(name, policy.name, HostName(policy.name), state, at, at, gpus=policy.gpus_per_replica)


def shared_out(load: Load, ready: int, fastest: float | None) -> Mapping[SignalName, Signal]:
    """What each of so many ready replicas would have said of itself."""
    each = 1.0 / max(1, ready)
    tpot, ttft = would_be(load, ready, fastest)
    more = load.ready / max(1, ready)
    return {
        SignalName.RUNNING: _value(load.running, each),
        SignalName.WAITING: _value(load.waiting, each),
        SignalName.PROMPT_TOKENS: _value(load.prompt, each),
        SignalName.GENERATION_TOKENS: _value(load.generated, each),
        SignalName.KV_CACHE_USAGE: _value(load.kv_usage, more, most=1.0),
        SignalName.GPU_UTILIZATION: _value(load.gpu_utilization, more, most=1.0),
        SignalName.TPOT_P95: _value(tpot, 1.0),
        SignalName.TTFT_P95: _value(ttft, 1.0),
    }


def would_be(load: Load, ready: int, fastest: float | None) -> tuple[float | None, float | None]:
    """(TPOT, TTFT) p95 with so many ready replicas; what was not recorded is not known either way."""
    if load.tpot is None or fastest is None or not load.ready:
        return load.tpot, load.ttft
    used = min(_BUSIEST, max(0.0, 1.0 - fastest / load.tpot))
    then = min(_BUSIEST, used * load.ready / max(1, ready))
    slower = (1.0 - used) / (1.0 - then)
    return load.tpot * slower, None if load.ttft is None else load.ttft * slower


def _value(number: float | None, factor: float, most: float | None = None) -> Signal:
    if number is None:
        return _SILENT
    return Value(number * factor if most is None else min(most, number * factor))


def summed(loads: Sequence[Load]) -> Load:
    """The load of pools that do the same work; what one of them does not say is missing of all."""
    serving = [load for load in loads if load.ready] or list(loads[:1])
    ready = sum(load.ready for load in loads)
    return Load(
        ready=ready,
        running=_sum([load.running for load in serving]),
        waiting=_sum([load.waiting for load in serving]),
        prompt=_sum([load.prompt for load in serving]),
        generated=_sum([load.generated for load in serving]),
        kv_usage=_mean([(load.kv_usage, load.ready) for load in serving]),
        gpu_utilization=_mean([(load.gpu_utilization, load.ready) for load in serving]),
        ttft=max((load.ttft for load in serving if load.ttft is not None), default=None),
        tpot=max((load.tpot for load in serving if load.tpot is not None), default=None),
    )


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _mean(shares: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(share, weight) for share, weight in shares if share is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(share * weight for share, weight in known) / total if total else None


PoolFleets = dict[PoolName, Fleet]
