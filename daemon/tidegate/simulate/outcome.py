"""What came of a run, and how it is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.simulate.engine import Request
from tidegate.simulate.world import World

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


class Verdicts:
    """Which requests were served within the SLO, by the minute of their arrival."""

    def __init__(self, world: World) -> None:
        """Nothing judged yet."""
        minutes = int(world.seconds // MINUTE) + 2
        self.total = [0.0] * minutes
        self.late_first = [0.0] * minutes
        self.slow = [0.0] * minutes
        self.missed = [0.0] * minutes
        self._world = world

    def judge(self, request: Request) -> None:
        """Count one request that was answered, or never will be."""
        slo, minute = self._world.slo, min(len(self.total) - 1, int(request.at // MINUTE))
        limit = slo.ttft_s
        if slo.prefill_multiple:
            limit = max(limit, slo.prefill_multiple * self._world.calibration.isolated_prefill(request.prompt))
        in_time, fluent = request.first - request.at <= limit, request.tpot <= slo.tpot_s
        self.total[minute] += 1
        self.late_first[minute] += not in_time
        self.slow[minute] += not fluent
        self.missed[minute] += not (in_time and fluent)

    def judge_many(self, at: float, total: float, late: float, slow: float, missed: float) -> None:
        """Count what the fluid model says of the requests of one moment."""
        minute = min(len(self.total) - 1, int(at // MINUTE))
        self.total[minute] += total
        self.late_first[minute] += late
        self.slow[minute] += slow
        self.missed[minute] += missed


@dataclass(frozen=True, slots=True)
class TickNote:
    """One tick, for whoever asks what went wrong and when."""

    at: float
    target: int
    ready: int
    starting: int
    draining: int
    waiting: int
    running: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scorecard of one run."""

    world: str
    planner: str
    seed: int
    attainment: float
    """Share of requests within the SLO."""
    ttft_attainment: float
    tpot_attainment: float
    requests: int
    lost_in_drain: int
    """Requests that a scale-in cut off."""
    unfinished: int
    base_gpu_hours: float
    burst_gpu_hours: float
    cost: float
    reversals: int
    """Changes of direction of the total target."""
    reversals_per_day: float
    changes: int
    started: int
    wasted_starts: int
    """Cancelled before they were ready, or drained before they had served as long as they took to start."""
    failed_starts: int
    peak_gpus: int
    blind_shrinks: int
    """Ticks without any signal in which the target fell or a replica was let go."""
    blind_growths: int
    minutes: tuple[tuple[float, float, float, float], ...] = field(repr=False, default=())
    """By minute of arrival: requests, late first tokens, slow answers, requests that missed either."""
    ticks: tuple[TickNote, ...] = field(repr=False, default=())

    @property
    def gpu_hours(self) -> float:
        """From the request of each replica to its stop."""
        return self.base_gpu_hours + self.burst_gpu_hours

    @property
    def wasted_share(self) -> float:
        """Wasted starts over starts that did not fail by themselves."""
        return self.wasted_starts / max(1, self.started - self.failed_starts)

    def as_json(self) -> dict[str, Any]:
        """The figures without the minutes and ticks."""
        left_out = {"minutes", "ticks"}
        shown = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        return shown | {"gpu_hours": self.gpu_hours, "wasted_share": self.wasted_share}

    def worst(self, count: int = 10) -> list[str]:
        """The minutes with the most misses, with what was decided in them: where to look first."""
        order = sorted(range(len(self.minutes)), key=lambda i: -self.minutes[i][3])
        return [self._line(index) for index in sorted(order[:count]) if self.minutes[index][3]]

    def _line(self, minute: int) -> str:
        total, late, slow, _ = self.minutes[minute]
        note = next((tick for tick in self.ticks if tick.at >= minute * MINUTE), None)
        seen = (
            f"target {note.target} ready {note.ready} starting {note.starting} draining {note.draining} "
            f"waiting {note.waiting} running {note.running}: {note.reason}"
            if note
            else ""
        )
        return f"minute {minute}: {total:.0f} requests, {late:.0f} late, {slow:.0f} slow | {seen}"
