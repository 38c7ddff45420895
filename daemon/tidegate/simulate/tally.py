"""What an engine counts for its `/metrics`: counters and two histograms, and their increase over a window."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

TTFT_BOUNDS: tuple[float, ...] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0),
    *(80.0, 160.0, 640.0, 2560.0),
)
TPOT_BOUNDS: tuple[float, ...] = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
"""Bucket bounds in seconds of `time_to_first_token_seconds` and `request_time_per_output_token_seconds` of vLLM."""


@dataclass(frozen=True, slots=True)
class Counts:
    """A copy of the counters at one moment."""

    prompt: float
    cached: float
    generated: float
    finished: float
    busy: float
    ttft: tuple[float, ...]
    tpot: tuple[float, ...]


class Tally:
    """The counters of one engine since it started."""

    __slots__ = ("_tpot", "_ttft", "busy", "cached", "finished", "generated", "prompt")

    def __init__(self) -> None:
        """Nothing counted."""
        self.prompt: float = 0
        self.cached: float = 0
        self.generated: float = 0
        self.finished: float = 0
        self.busy = 0.0
        self._ttft: list[float] = [0] * (len(TTFT_BOUNDS) + 1)
        self._tpot: list[float] = [0] * (len(TPOT_BOUNDS) + 1)

    def first_token(self, seconds: float, prompt: int, cached: int) -> None:
        """A prefill ended: vLLM adds the whole prompt, cached tokens included, at this moment."""
        self.prompt += prompt
        self.cached += cached
        self._ttft[bisect_left(TTFT_BOUNDS, seconds)] += 1

    def finished_one(self, tpot: float) -> None:
        """A request got its last token."""
        self.finished += 1
        self._tpot[bisect_left(TPOT_BOUNDS, tpot)] += 1

    def add_prompts(self, prompt: float, cached: float) -> None:
        """Prompt tokens of many requests (the fluid model)."""
        self.prompt += prompt
        self.cached += cached

    def add_first_tokens(self, requests: float, seconds: float) -> None:
        """Times to first token of many requests (the fluid model)."""
        self._ttft[bisect_left(TTFT_BOUNDS, seconds)] += requests

    def add_finished(self, requests: float, tpot: float) -> None:
        """Many finished requests (the fluid model)."""
        self.finished += requests
        self._tpot[bisect_left(TPOT_BOUNDS, tpot)] += requests

    def counts(self) -> Counts:
        """The counters now."""
        return Counts(
            self.prompt, self.cached, self.generated, self.finished, self.busy, tuple(self._ttft), tuple(self._tpot)
        )


def quantile(bounds: Sequence[float], before: Sequence[float], after: Sequence[float], q: float) -> float | None:
    """The q-quantile of what a histogram gained, linear within its bucket as PromQL does; None when it gained nothing.

    In the bucket without an upper bound it is the highest bound.
    """
    gained = [new - old for old, new in zip(before, after, strict=True)]
    total = sum(gained)
    if total <= 0:
        return None
    rank, below = q * total, 0.0
    for index, count in enumerate(gained):
        if below + count >= rank and count:
            if index == len(bounds):
                return bounds[-1]
            lower = bounds[index - 1] if index else 0.0
            return lower + (bounds[index] - lower) * (rank - below) / count
        below += count
    return bounds[-1]
