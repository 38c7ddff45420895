"""A fixed number of replicas, and a schedule that was worked out beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.simulate.baselines.split import split
from tidegate.simulate.observation import Answer, Observation


@dataclass(slots=True)
class Static:
    """Always the same number."""

    replicas: int
    name: str = "static"
    tick_seconds: float = 15.0

    def plan(self, seen: Observation) -> Answer:
        """The number."""
        return split(self.replicas, seen)

    def restart(self, *, memory_lost: bool) -> None:
        """Nothing is remembered."""


@dataclass(slots=True)
class Scheduled:
    """What a function of the time says, whatever is seen."""

    replicas_at: Callable[[float], int]
    name: str = "clairvoyant"
    tick_seconds: float = 15.0

    def plan(self, seen: Observation) -> Answer:
        """The schedule's number for now."""
        return split(self.replicas_at(seen.now), seen)

    def restart(self, *, memory_lost: bool) -> None:
        """Nothing is remembered."""
