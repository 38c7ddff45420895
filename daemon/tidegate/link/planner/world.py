"""An observation as the fleet and the policy that `plan` decides on. Pure.

The caller starts replicas himself and names them as he likes: places are free without end (within `max` and budget),
and a replica is called POOL:ID here where its own id does not say its pool, so that two pools may use the same ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal, localcontext
from functools import lru_cache

from tidegate.link.planner.observation import Observation, ObservedPool, ObservedReplica, Refused
from tidegate.model.fleet import (
    Fleet,
    Gateway,
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
from tidegate.model.missing import Missing, Number
from tidegate.model.policy import (
    Budget,
    Control,
    ControlKind,
    Flavour,
    FleetPolicy,
    Mode,
    PolicyName,
    PoolPolicy,
    Ratio,
    ServicePolicy,
    SloPolicy,
)
from tidegate.model.reading import HostName

SERVICE = ServiceName("fleet")
"""Without a configuration every pool serves this one service."""
_NO_TTFT, _NO_TPOT = 3600.0, 60.0
"""What a goal that is null comes to: nothing that serves at all misses it."""
_MOST_AT_ONCE = 1000
"""Places of one pool that one plan may fill."""
_STATES = {
    "starting": ReplicaState.BOOTING,
    "ready": ReplicaState.READY,
    "draining": ReplicaState.DRAINING,
    "failed": ReplicaState.FAILED,
}
_SIGNALS = {
    "running": SignalName.RUNNING,
    "waiting": SignalName.WAITING,
    "kv_usage": SignalName.KV_CACHE_USAGE,
    "prompt_tps": SignalName.PROMPT_TOKENS,
    "generation_tps": SignalName.GENERATION_TOKENS,
    "ttft_p95_s": SignalName.TTFT_P95,
    "tpot_p95_s": SignalName.TPOT_P95,
    "request_rate": SignalName.REQUEST_RATE,
    "cached_tps": SignalName.CACHED_TOKENS,
    "gpu_utilization": SignalName.GPU_UTILIZATION,
}

_START_DEADLINE = timedelta(minutes=20)
"""Nobody says how long a start may take, and half of those of ten minutes take longer than that."""


def replica_id(pool: str, replica: ObservedReplica) -> ReplicaId:
    """What a replica is called here: its own id where that is of the form POOL-ANYTHING, else POOL:ID."""
    own = str(replica.id)
    return ReplicaId(own if own.startswith(f"{pool}-") else f"{pool}:{own}")


def bare_policy(observation: Observation) -> FleetPolicy:
    """The policy that an observation states by itself: its limits, its goals, its prices, one service."""
    ratios = [pool.ratio for pool in observation.pools if pool.ratio is not None]
    service = ServicePolicy(
        SERVICE,
        policy=PolicyName.SLO,
        slo=SloPolicy(observation.ttft_seconds or _NO_TTFT, observation.tpot_seconds or _NO_TPOT),
        ratio=_narrowest(ratios),
    )
    return FleetPolicy(
        services={SERVICE: service},
        pools={PoolName(pool.name): _pool_policy(pool) for pool in observation.pools},
        mode=Mode.ACT,
        budget=_budget(observation, Budget()),
    )


def configured_policy(observation: Observation, policy: FleetPolicy) -> FleetPolicy:
    """The configuration's policy for the pools in sight; raises Refused for a pool that it does not have.

    Acting is the caller's business, so `advise` plans like `act`; `paused` holds everything. A budget in the
    observation can narrow the configuration's, not widen it.
    """
    names = [PoolName(pool.name) for pool in observation.pools]
    unknown = [name for name in names if name not in policy.pools]
    if unknown:
        raise Refused(f"pools.{unknown[0]}: the configuration has no such pool (it has {', '.join(policy.pools)})")
    paused = (Control(ControlKind.PAUSE_OUT), Control(ControlKind.PAUSE_IN)) if policy.mode is Mode.PAUSED else ()
    return replace(
        policy,
        pools={name: pool for name, pool in policy.pools.items() if name in names},
        mode=Mode.ACT,
        controls=paused,
        budget=_budget(observation, policy.budget),
    )


def fleet_of(observation: Observation, policy: FleetPolicy) -> Fleet:
    """The fleet in sight; raises Refused when one replica stands in two pools.

    What waits at the front door belongs to a service only where there is just one.
    """
    _refuse_twice(observation)
    services = {policy.pools[PoolName(pool.name)].service for pool in observation.pools}
    gateway = Gateway(_signal(observation.waiting), _signal(observation.arrival_rps))
    return Fleet(
        at=observation.now,
        pools={PoolName(pool.name): _view(pool, policy.pools[PoolName(pool.name)]) for pool in observation.pools},
        gateways=dict.fromkeys(services, gateway) if len(services) == 1 else {},
    )


def _refuse_twice(observation: Observation) -> None:
    seen: set[ReplicaId] = set()
    for pool in observation.pools:
        for position, replica in enumerate(pool.replicas):
            name = replica_id(pool.name, replica)
            if name in seen:
                raise Refused(f"pools.{pool.name}.replicas[{position}].id: {name} stands in another pool too")
            seen.add(name)


def _narrowest(ratios: list[tuple[float, float]]) -> Ratio:
    """Several pools of one service may state it; what satisfies all of them holds, else the first."""
    if not ratios:
        return Ratio()
    low, high = max(low for low, _ in ratios), min(high for _, high in ratios)
    return Ratio(low, high) if low <= high else Ratio(*ratios[0])


def _budget(observation: Observation, given: Budget) -> Budget:
    gpus, per_hour = observation.budget_gpus, observation.budget_per_hour
    money = None if per_hour is None else Decimal(repr(per_hour))
    return Budget(
        gpus=min((each for each in (gpus, given.gpus) if each is not None), default=None),
        per_hour=min((each for each in (money, given.per_hour) if each is not None), default=None),
    )


def _pool_policy(pool: ObservedPool) -> PoolPolicy:
    kind = pool.kind or (PoolKind.BURST if "burst" in pool.name.lower() else PoolKind.BASE)
    gpus = pool.gpus_per_replica or 1
    return PoolPolicy(
        name=PoolName(pool.name),
        service=SERVICE,
        kind=kind,
        role=pool.role,
        min=pool.minimum or 0,
        max=pool.maximum or 0,
        gpus_per_replica=gpus,
        flavours=(_flavour(pool.price_per_hour, gpus),),
    )


def _flavour(price: float | None, gpus: int) -> Flavour:
    return Flavour(price_per_gpu_hour=_per_gpu(price, gpus), currency="", start_deadline=_START_DEADLINE)


def _per_gpu(price: float | None, gpus: int) -> Decimal | None:
    """A replica's price by GPU, rounded down: as many replicas as a budget names exactly must fit into it."""
    if price is None:
        return None
    with localcontext() as context:
        context.rounding = ROUND_DOWN
        return Decimal(repr(price)) / gpus


def _view(pool: ObservedPool, policy: PoolPolicy) -> PoolView:
    name = PoolName(pool.name)
    replicas = tuple(_replica(name, replica, policy.gpus_per_replica) for replica in pool.replicas)
    ready = sum(replica.state == "ready" for replica in pool.replicas)  # a starting one may be given up for another
    free = min(_MOST_AT_ONCE, max(0, policy.max - ready))
    return PoolView(name, replicas, _places(pool.name, policy.gpus_per_replica, free))


@lru_cache(maxsize=1024)
def _places(name: str, gpus: int, count: int) -> tuple[Slot, ...]:
    """As many places as the pool may still fill, on a host of its own."""
    host = HostName(name)
    return tuple(Slot(host, slot, tuple(range(slot * gpus, slot * gpus + gpus)), slot) for slot in range(count))


def _replica(pool: PoolName, replica: ObservedReplica, gpus: int) -> Replica:
    return Replica(
        id=replica_id(pool, replica),
        pool=pool,
        host=HostName(pool),
        state=_STATES[replica.state],
        since=replica.since,
        requested_at=replica.since,
        gpus=gpus,
        why=replica.why,
        signals=_signals(replica.signals),
    )


def _signals(signals: Mapping[str, Number]) -> Mapping[SignalName, Signal]:
    return {name: _signal(signals[word]) for word, name in _SIGNALS.items()}


def _signal(number: Number) -> Signal:
    return number if isinstance(number, Missing) else Value(number)
