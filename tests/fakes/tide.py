"""A fleet under the `slo` policy: its engines slow down with the work on them, queue what is too much, and say so.

The load is in replicas' worth of work a second. A replica answers in 20 ms a token when idle and in 60 ms, the
objective, at three quarters of what it can do; what it cannot do waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from fakes.world import CHAT, World, policy

from tidegate.model.fleet import Fleet, Gateway, Replica, ReplicaState, Signal, SignalName, Value
from tidegate.model.policy import FleetPolicy, PolicyName, PoolPolicy, ServicePolicy
from tidegate.model.reading import Gap, Missing

FULL = 0.75
"""The work of a replica at which a token takes as long as the objective allows."""
PROMPT, ANSWER, REQUESTS = 6000.0, 900.0, 5.0
"""Tokens and requests per second that are one replica's worth of work."""
SILENT = dict.fromkeys(SignalName, Missing(Gap.UNREACHABLE))


def by_objective(*pools: PoolPolicy, **changes: object) -> FleetPolicy:
    """A fleet policy that acts, by the objective of 2 s and 60 ms."""
    service = replace(ServicePolicy(CHAT, policy=PolicyName.SLO), **changes)  # type: ignore[arg-type]
    return policy(*pools, service=service)


class Tide(World):
    """Time passes as in `World`; the load is work, and what cannot be done is queued."""

    def __init__(self, made: FleetPolicy, *replicas: Replica, start: float = 240, free: int = 12) -> None:
        super().__init__(made, *replicas, start=start, free=free)
        self.queue = 0.0
        """Requests that wait, all replicas together."""
        self.gateway = True
        """Whether the front door tells what it sees."""
        self.broken: Mapping[SignalName, Signal] = {}
        """Signals that every replica gives in place of its own."""

    def fleet(self, load: float) -> Fleet:
        """The fleet as it is seen while this much work comes in."""
        ready = [one for one in self.replicas if one.state is ReplicaState.READY]
        self.queue = max(0.0, self.queue + (load - len(ready)) * REQUESTS * 15.0)
        seen = super().fleet(min(load + self.queue / (REQUESTS * 15.0), float(len(ready))))
        if not self.gateway:
            return seen
        outside = 0.0 if ready else self.queue
        return replace(seen, gateways={CHAT: Gateway(Value(outside), Value(load * REQUESTS))})

    def _signals(self, one: Replica, share: float) -> Mapping[SignalName, Signal]:
        if one.state is not ReplicaState.READY:
            return {}
        if one.id in self.silent:
            return SILENT
        ready = sum(other.state is ReplicaState.READY for other in self.replicas)
        waiting = self.queue / ready
        tpot = 0.02 / (1.0 - share * (2.0 / 3.0) / FULL) if share < 1.0 else 0.2
        numbers = {
            SignalName.RUNNING: ANSWER * share * tpot,
            SignalName.WAITING: waiting,
            SignalName.KV_CACHE_USAGE: 0.4 * share,
            SignalName.PROMPT_TOKENS: PROMPT * share,
            SignalName.GENERATION_TOKENS: ANSWER * share,
            SignalName.CACHED_TOKENS: 0.0,
            SignalName.REQUEST_RATE: REQUESTS * share,
            SignalName.GPU_UTILIZATION: min(1.0, 2.0 * share),
        }
        if share > 0:
            numbers |= {SignalName.TPOT_P95: tpot, SignalName.TTFT_P95: 0.3 + waiting / REQUESTS}
        return {**{name: Value(value) for name, value in numbers.items()}, **self.broken}

    def warmed(self, load: float, minutes: float = 60) -> Tide:
        """After so long under a steady load: everything that it teaches is known."""
        self.run(load, ticks=int(minutes * 4))
        self.history.clear()
        return self

    def after(self, load: float, minutes: float) -> int:
        """The supply after so many more minutes under this load."""
        self.run(load, ticks=int(minutes * 4))
        return self.sizes[-1]

    @property
    def turns(self) -> int:
        """How often the supply went the other way than before."""
        steps = [b - a for a, b in pairwise(self.sizes) if a != b]
        return sum((a > 0) != (b > 0) for a, b in pairwise(steps))
