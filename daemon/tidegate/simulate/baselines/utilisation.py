"""A threshold on GPU utilisation with a cooldown: how many teams start.

One more above 75 %, one less below 30 %, nothing for two minutes after a change.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.simulate.baselines.split import split, supply_of, total_of
from tidegate.simulate.observation import Answer, Observation


@dataclass(slots=True)
class Utilisation:
    """Mean utilisation of the ready replicas."""

    above: float = 0.75
    below: float = 0.30
    cooldown: float = 120.0
    tick_seconds: float = 15.0
    name: str = "gpu-utilisation"
    _changed: float = -1e9

    def plan(self, seen: Observation) -> Answer:
        """One look."""
        supply = supply_of(seen)
        total, known = total_of(seen.replicas("ready"), "gpu_utilization")
        if not known or seen.now - self._changed < self.cooldown:
            return split(supply, seen)
        mean = total / known
        step = (mean > self.above) - (mean < self.below)
        if step:
            self._changed = seen.now
        return split(supply + step, seen)

    def restart(self, *, memory_lost: bool) -> None:
        """The cooldown is lost with the memory."""
        if memory_lost:
            self._changed = -1e9
