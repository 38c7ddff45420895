"""What knowing every arrival beforehand is worth: the cheapest schedule found that still keeps the SLO.

The same engines, the same traffic, the same drain and tick; only the start time is exact and known. The schedule is
one count for each stretch of minutes. It is found in three steps:

1. every constant count is played once, which tells the requests that miss the SLO in every stretch at every count;
2. the cheapest path through the stretches is taken (Viterbi), where a replica costs its time, a start costs its start
   time, and a missed request costs a price; the price is bisected to the smallest that keeps the goal;
3. each candidate path is played as a whole, with its starts, its drains and the queues that stretches leave to one
   another, and counts only when the goal holds in that play. Stretches of several lengths are tried; the best is then
   thinned, stretch by stretch, as long as the goal holds.

So it is a schedule that exists, hence an upper bound of the true optimum; what a perfect search could save beyond it
is not known. A planner's hours over its hours say what not knowing the future cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.simulate.baselines.static import Scheduled, Static
from tidegate.simulate.outcome import MINUTE, Outcome
from tidegate.simulate.world import Planner, World

STRETCHES = (1, 2, 5)
"""Minutes of one stretch."""
BISECTIONS = 7
_ALL = 0.9999

Play = Callable[[World, Planner, int], Outcome]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Replicas that are wanted in each stretch, and what came of them."""

    minutes: int
    counts: tuple[int, ...]
    outcome: Outcome


def clairvoyant(world: World, seed: int, play: Play, goal: float = 0.99, thinning: int = 2) -> Schedule | None:
    """The cheapest schedule found that serves `goal` of the requests within the SLO; None when no count can."""
    calm = replace(world, start_spread=0.0, faults=type(world.faults)())
    lowest, highest = sum(pool.min for pool in world.pools), sum(pool.max for pool in world.pools)
    ladder: list[Outcome] = []
    for count in range(lowest, highest + 1):
        full = bool(ladder) and ladder[-1].attainment > _ALL  # more replicas serve nobody better
        ladder.append(ladder[-1] if full else play(replace(calm, initial=count), Static(count), seed))
    if max(outcome.attainment for outcome in ladder) < goal:
        return None
    search = _Search(calm, seed, play, goal, lowest)
    found = [best for minutes in STRETCHES if (best := search.bisected(minutes, ladder)) is not None]
    best = min(found, key=lambda schedule: schedule.outcome.gpu_hours)
    for _ in range(thinning):
        best = search.thinned(best)
    return best


@dataclass(frozen=True, slots=True)
class _Search:
    world: World
    seed: int
    play: Play
    goal: float
    lowest: int

    def bisected(self, minutes: int, ladder: Sequence[Outcome]) -> Schedule | None:
        """The cheapest passing path, over the price of a miss."""
        misses = [_by_stretch(outcome, minutes) for outcome in ladder]
        low, high, best = 1e-3, 1e5, None
        for _ in range(BISECTIONS):
            price = (low * high) ** 0.5
            tried = self.played(minutes, self._path(minutes, misses, price))
            if tried.outcome.attainment >= self.goal:
                high = price
                best = tried if best is None or tried.outcome.gpu_hours < best.outcome.gpu_hours else best
            else:
                low = price
        return best

    def thinned(self, schedule: Schedule) -> Schedule:
        """Take one replica out of one run of stretches after another, wherever the goal still holds."""
        best, counts = schedule, list(schedule.counts)
        for begin, end in _plateaus(counts):
            if counts[begin] <= self.lowest:
                continue
            fewer = [*counts[:begin], *(count - 1 for count in counts[begin:end]), *counts[end:]]
            tried = self.played(schedule.minutes, fewer)
            if tried.outcome.attainment >= self.goal and tried.outcome.gpu_hours < best.outcome.gpu_hours:
                best, counts = tried, fewer
        return best

    def played(self, minutes: int, counts: Sequence[int]) -> Schedule:
        """Play a path as a whole."""
        width, tick = minutes * MINUTE, 15.0
        lead = self.world.start_seconds + tick

        def at(now: float) -> int:
            first, last = (min(len(counts) - 1, int(moment // width)) for moment in (now, now + lead))
            return max(counts[first : last + 1])

        world = replace(self.world, initial=counts[0])
        return Schedule(minutes, tuple(counts), self.play(world, Scheduled(at), self.seed))

    def _path(self, minutes: int, misses: Sequence[Sequence[float]], price: float) -> list[int]:
        """The cheapest counts, in replica-seconds: time, starts, and misses at `price` each."""
        width, start, levels = minutes * MINUTE, self.world.start_seconds, range(len(misses))
        cost = [0.0] * len(misses)
        came: list[list[int]] = []
        for stretch in range(len(misses[0])):
            before, origin = cost, []
            cost = []
            for level in levels:
                best = min(levels, key=lambda other, to=level: before[other] + start * max(0, to - other))  # type: ignore[misc]
                origin.append(best)
                entered = before[best] + start * max(0, level - best) * (stretch > 0)
                cost.append(entered + (self.lowest + level) * width + price * misses[level][stretch])
            came.append(origin)
        level = min(levels, key=lambda each: cost[each])
        path = []
        for origin in reversed(came):
            path.append(self.lowest + level)
            level = origin[level]
        return path[::-1]


def _by_stretch(outcome: Outcome, minutes: int) -> list[float]:
    missed: list[float] = [minute[3] for minute in outcome.minutes]
    return [sum(missed[index : index + minutes]) for index in range(0, len(missed), minutes)]


def _plateaus(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of equal counts, the highest first."""
    edges = [0, *(i for i in range(1, len(counts)) if counts[i] != counts[i - 1]), len(counts)]
    return sorted(pairwise(edges), key=lambda run: -counts[run[0]])
