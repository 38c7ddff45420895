"""How long one tick's `plan()` takes for 200 pools with 2,000 replicas, memory warm. Prints JSON; CPU seconds, median.

python bench/decide_tick.py [--pools 200] [--replicas 2000] [--ticks 40]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime, timedelta
from random import Random

from tidegate.decide.plan import plan
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
    SignalName,
    Slot,
    Value,
)
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy, Mode, PoolPolicy, ServicePolicy
from tidegate.model.reading import HostName

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
TICK = timedelta(seconds=15)


def policy_of(pools: int) -> FleetPolicy:
    """So many pools, a base and a burst pool a service."""
    found = {}
    for number in range(pools):
        kind = PoolKind.BURST if number % 2 else PoolKind.BASE
        name, service = PoolName(f"{kind.value}{number}"), ServiceName(f"service{number // 2}")
        found[name] = PoolPolicy(name, service, kind, min=0 if number % 2 else 2, max=40)
    services = {pool.service: ServicePolicy(pool.service) for pool in found.values()}
    return FleetPolicy(services, found, mode=Mode.ACT)


def fleet_of(policy: FleetPolicy, each: int, now: datetime, random: Random) -> Fleet:
    """Every pool with `each` busy replicas and a few free places."""
    views = {}
    for name in policy.pools:
        host = HostName(f"host-of-{name}")
        replicas = tuple(replica(name, number, random) for number in range(each))
        slots = tuple(Slot(host, 100 + place, (100 + place,), 8100 + place) for place in range(4))
        views[name] = PoolView(name, replicas, slots)
    gateways = {name: Gateway(Value(0.0), Value(4.0 * each)) for name in policy.services}
    return Fleet(now, views, gateways)


def replica(pool: PoolName, number: int, random: Random) -> Replica:
    """A replica with all its signals."""
    busy = random.uniform(0.5, 0.9)
    signals = {
        SignalName.RUNNING: 30.0 * busy,
        SignalName.WAITING: 0.0,
        SignalName.KV_CACHE_USAGE: 0.4 * busy,
        SignalName.PROMPT_TOKENS: 4000.0 * busy,
        SignalName.GENERATION_TOKENS: 800.0 * busy,
        SignalName.REQUEST_RATE: 4.0 * busy,
        SignalName.TTFT_P95: 0.4 / (1.1 - busy),
        SignalName.TPOT_P95: 0.02 / (1.1 - busy),
    }
    return Replica(
        ReplicaId(f"{pool}-{number}"),
        pool,
        HostName(f"host-of-{pool}"),
        ReplicaState.READY,
        BEGAN,
        BEGAN,
        gpus=1,
        signals={name: Value(value) for name, value in signals.items()},
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=2000)
    parser.add_argument("--ticks", type=int, default=40)
    asked = parser.parse_args()
    policy, memory, random = policy_of(asked.pools), Memory(), Random(1)
    spent = []
    for tick in range(asked.ticks):
        now = BEGAN + TICK * (tick + 20)
        fleet = fleet_of(policy, asked.replicas // asked.pools, now, random)
        before = time.process_time()
        memory = plan(fleet, policy, memory, now).memory
        spent.append(time.process_time() - before)
    warm = sorted(spent[asked.ticks // 2 :])
    result = {"median_ms": statistics.median(warm) * 1000, "worst_ms": warm[-1] * 1000}
    print(json.dumps({"pools": asked.pools, "replicas": asked.replicas, **result}))


if __name__ == "__main__":
    main()
