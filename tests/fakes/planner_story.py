"""A story told to the planner line by line: time passes, things go wrong, the tenant does what the plan says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fakes.observations import JSON, Tenant, line

from tidegate.decide.plan import plan
from tidegate.link.planner.session import Session
from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_from, memory_json

Mischief = Callable[[JSON], None]
"""Spoils an observation before the planner sees it."""


class Story:
    """One planner over one tenant's world."""

    def __init__(self, **tenant: Any) -> None:
        self.tenant = Tenant(**tenant)
        self.memory = Memory()
        self.mischief: list[Mischief] = []
        self.plans: list[JSON] = []
        self.sizes: list[int] = []
        self.victims: list[str | int] = []
        self.lines = 0

    def tick(self, rate: float, seconds: float = 15.0) -> JSON:
        """One observation, one plan, carried out at once."""
        seen = self.tenant.observe(rate, seconds)
        for spoil in self.mischief:
            spoil(seen)
        self.lines += 1
        turn = Session(plan).turn(line(seen), self.lines, self.memory)
        self.memory = turn.memory
        made: JSON = json.loads(turn.answer)
        assert "pools" in made, made
        self.tenant.obey(made)
        self.plans.append(made)
        self.sizes.append(self.size)
        self.victims += [victim for pool in made["pools"].values() for victim in pool["victims"]]
        return made

    def run(self, rate: float, minutes: float) -> JSON:
        """So long under the same load; the last plan."""
        for _ in range(round(minutes * 4)):
            made = self.tick(rate)
        return made

    def restart(self) -> None:
        """The planner ends and begins again with what its file holds."""
        again = memory_from(json.loads(json.dumps(memory_json(self.memory))))
        assert again is not None
        self.memory = again

    @property
    def size(self) -> int:
        """Replicas that serve or will."""
        return self.tenant.supply("base") + self.tenant.supply("burst")

    def limits(self, pool: str = "base") -> list[str]:
        """What held the pool at the last tick."""
        found: list[str] = self.plans[-1]["pools"][pool]["limits"]
        return found


def each_replica(seen: JSON) -> list[JSON]:
    """Every replica of an observation."""
    return [replica for pool in seen["pools"].values() for replica in pool["replicas"]]


def blind(seen: JSON) -> None:
    """Nothing is heard of anything: the metric store is away."""
    for replica in each_replica(seen):
        replica["signals"] = None
    seen["gateway"] = None


def all_signals(value: Any) -> Mischief:
    """Every signal of every replica is this."""

    def spoil(seen: JSON) -> None:
        for replica in each_replica(seen):
            if replica["signals"]:
                replica["signals"] = dict.fromkeys(replica["signals"], value)

    return spoil
