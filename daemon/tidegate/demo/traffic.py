"""A day of requests: night trough, two working peaks, one sharp spike, and one change that spoils the prefix cache.

Pure: the generator of random numbers is passed in, so the same seed gives the same day. Hours are UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from random import Random

from tidegate.demo.engine_model import Arrival

CURVE = (
    *((0.0, 0.34), (3.0, 0.22), (5.5, 0.26), (7.5, 0.80), (9.0, 1.75), (10.5, 2.30), (12.0, 1.95)),
    *((13.0, 1.55), (15.0, 2.00), (16.5, 2.05), (18.0, 1.35), (19.5, 1.05), (21.5, 0.55), (24.0, 0.34)),
)
"""Hour of the day and requests per second there; straight lines between."""
SPIKE_START_HOUR, SPIKE_HOURS, SPIKE_PER_SECOND = 20.0, 0.75, 1.9
"""A launch is announced in the evening: this much on top, for this long."""
RAMP_HOURS = 0.1
SYSTEM_PROMPTS = (960, 720, 1280, 640)
"""Tokens of the system prompt of each application that shares the fleet."""
CONVERSATION_SHARE = 0.06
"""Requests that begin like no other: a pasted document before everything else."""
EVENT_START_HOUR, EVENT_END_HOUR = 14.0, 15.5
EVENT_SHARE = 0.78
"""While the event lasts: requests whose system prompt begins with the current time, so that nothing is shared."""


@dataclass(frozen=True, slots=True)
class Day:
    """The day that is played: its midnight, and how busy it is compared with CURVE."""

    midnight: datetime
    scale: float = 1.0

    def rate(self, at: float) -> float:
        """Requests per second at a unix second."""
        hour = self._hour(at)
        return self.scale * (_along(CURVE, hour) + _spike(hour))

    def spoilt(self, at: float) -> bool:
        """True while the changed system prompt is out."""
        return EVENT_START_HOUR <= self._hour(at) < EVENT_END_HOUR

    def _hour(self, at: float) -> float:
        return (at - self.midnight.timestamp()) / 3600 % 24


def _along(points: tuple[tuple[float, float], ...], hour: float) -> float:
    for (left, low), (right, high) in pairwise(points):
        if left <= hour <= right:
            return low + (high - low) * (hour - left) / (right - left)
    return points[-1][1]


def _spike(hour: float) -> float:
    up = (hour - SPIKE_START_HOUR) / RAMP_HOURS
    down = (SPIKE_START_HOUR + SPIKE_HOURS - hour) / RAMP_HOURS
    return SPIKE_PER_SECOND * max(0.0, min(1.0, up, down))


class Traffic:
    """The requests of a day in order of arrival, window by window."""

    def __init__(self, day: Day, random: Random, start: float) -> None:
        self._day = day
        self._random = random
        self._next_id = 1
        self._peak = 1.05 * day.scale * (max(rate for _, rate in CURVE) + SPIKE_PER_SECOND)
        self._at = start
        self._pending: Arrival | None = None

    def until(self, moment: float) -> Iterator[Arrival]:
        """Every request that arrives before the unix second `moment` and was not given yet."""
        while True:
            if self._pending is None:
                self._pending = self._draw()
            if self._pending.at >= moment:
                return
            yield self._pending
            self._pending = None

    def _draw(self) -> Arrival:
        """The next arrival of a Poisson process whose rate changes: draw at the peak's rate, keep the due share."""
        while True:
            self._at += self._random.expovariate(self._peak)
            if self._random.random() * self._peak < self._day.rate(self._at):
                return self._request(self._at)

    def _request(self, at: float) -> Arrival:
        random = self._random
        application = random.choices(range(len(SYSTEM_PROMPTS)), (5, 3, 2, 2))[0]
        shared = SYSTEM_PROMPTS[application]
        question = _lognormal(random, 390, 0.8, 16, 6000)
        number, self._next_id = self._next_id, self._next_id + 1
        unlike_any = random.random() < (EVENT_SHARE if self._day.spoilt(at) else CONVERSATION_SHARE)
        return Arrival(
            id=number,
            at=at,
            prompt_tokens=shared + question,
            output_tokens=_lognormal(random, 480, 0.7, 8, 2000),
            prefix=1_000_000 + number if unlike_any else application,
            prefix_tokens=shared,
        )


def _lognormal(random: Random, median: float, sigma: float, low: int, high: int) -> int:
    return max(low, min(high, round(median * math.exp(random.gauss(0.0, sigma)))))
