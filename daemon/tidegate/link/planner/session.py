"""One line in, one line out, and what to remember: the planner's conversation without its pipes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.link.planner.answer import answer_line, error_line
from tidegate.link.planner.observation import Refused, read_observation
from tidegate.link.planner.world import bare_policy, configured_policy, fleet_of
from tidegate.model.decision import Plan
from tidegate.model.fleet import Fleet
from tidegate.model.memory import Memory
from tidegate.model.policy import Budget, FleetPolicy

Decide = Callable[[Fleet, FleetPolicy, Memory, datetime], Plan]
"""The decision core's one door."""

_FAULTS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a fault of the planner itself looks like: one line is lost to it, not the process."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer to one line, and the memory after it."""

    answer: bytes
    memory: Memory


@dataclass(frozen=True, slots=True)
class Session:
    """What holds for every line: how to decide, and the configuration where there is one."""

    decide: Decide
    policy: FleetPolicy | None = None

    def turn(self, line: bytes, number: int, memory: Memory, news: tuple[str, ...] = ()) -> Turn:
        """Answer the line that came as the `number`-th; `news` is said among the reasons.

        A line that is refused, and one that the planner fails on, changes nothing in the memory.
        """
        try:
            observation = read_observation(line, bare=self.policy is None)
            bare = bare_policy(observation) if self.policy is None else configured_policy(observation, self.policy)
            fleet = fleet_of(observation, bare)
        except Refused as error:
            return Turn(error_line(f"line {number}: {error}"), memory)
        try:
            plan = self.decide(fleet, bare, memory, observation.now)
            said = replace(observation, notes=(*news, *observation.notes))
            return Turn(answer_line(said, plan, budgeted=bare.budget != Budget()), plan.memory)
        except _FAULTS as error:
            fault = f"line {number}: a fault in the planner ({type(error).__name__}: {error}); please report the line"
            return Turn(error_line(fault), memory)
