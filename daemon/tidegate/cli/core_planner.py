"""Our own decision core as a planner of the simulator: through the lines of `plan --stdio`, so that what is scored is
what other programs get."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from tidegate.decide.plan import plan
from tidegate.link.planner.session import Session
from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.model.policy import FleetPolicy
from tidegate.runtime.errors import TidegateError
from tidegate.simulate.observation import Answer, Observation

EPOCH_SECONDS = 1_700_000_000.0
"""The simulator counts from 0; a planner is told a time of day."""


@dataclass(slots=True)
class CorePlanner:
    """`plan()` with its memory, fed one line a tick."""

    policy: FleetPolicy | None = None
    """None: what an observation states by itself."""
    name: str = "slo"
    tick_seconds: float = 15.0
    memory: Memory = field(default_factory=Memory)
    _lines: int = 0

    def plan(self, seen: Observation) -> Answer:
        """One turn; raises `TidegateError` with the planner's words when it refused the line."""
        self._lines += 1
        turn = Session(plan, self.policy).turn(line_of(seen), self._lines, self.memory)
        self.memory = turn.memory
        answered = json.loads(turn.answer)
        if "error" in answered:
            raise TidegateError(answered["error"])
        return Answer.from_json(answered)

    def restart(self, *, memory_lost: bool) -> None:
        """Begin anew with the memory as it was stored, or without."""
        kept = None if memory_lost else memory_from(json.loads(json.dumps(memory_json(self.memory))))
        self.memory = kept or Memory()


def line_of(seen: Observation) -> bytes:
    """The observation as one line of `plan --stdio`, at a real time of day."""
    pools = {
        name: replace(pool, replicas=tuple(replace(one, since=one.since + EPOCH_SECONDS) for one in pool.replicas))
        for name, pool in seen.pools.items()
    }
    return json.dumps(replace(seen, now=seen.now + EPOCH_SECONDS, pools=pools).as_json()).encode()
