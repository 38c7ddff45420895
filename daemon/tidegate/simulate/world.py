"""A world to plan in: traffic, engines, pools, how long things take and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidegate.simulate.engine import Calibration
from tidegate.simulate.observation import Answer, Observation

Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Block:
    """Requests in order of arrival: seconds, prompt tokens, output tokens, prompt tokens that are in the cache."""

    at: np.ndarray
    prompt: np.ndarray
    out: np.ndarray
    cached: np.ndarray


Traffic = Callable[[Random], Iterator[Block]]
"""Makes the requests of one run; the same seed makes the same ones."""


@dataclass(frozen=True, slots=True)
class Slo:
    """A request is served well when both hold: time to first token and mean time per output token, in seconds."""

    ttft_s: float = 2.0
    tpot_s: float = 0.060
    prefill_multiple: float = 0.0
    """The first token may also take this many times what its prompt takes on an idle engine."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """One pool's bounds and price."""

    name: str
    kind: str
    min: int
    max: int
    gpus_per_replica: int = 4
    price_per_hour: float = 10.0
    """Of one replica."""


BASE_AND_BURST = (
    PoolSpec("base", "base", 2, 4, price_per_hour=10.0),
    PoolSpec("burst", "burst", 0, 8, price_per_hour=14.0),
)


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` for `seconds`, again every `every` seconds if that is not 0."""

    start: float
    seconds: float
    every: float = 0.0

    def holds(self, at: float) -> bool:
        """Whether the moment is inside."""
        if at < self.start:
            return False
        passed = at - self.start
        return (passed % self.every if self.every else passed) < self.seconds


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. The defaults are nothing."""

    outage: Span | None = None
    """No signal of any engine, none of the gateway."""
    not_a_number: Span | None = None
    """Every signal is NaN."""
    silent_share: float = 0.0
    """This share of replicas never has signals."""
    failed_start_share: float = 0.0
    quota: int | None = None
    """Starts beyond this many live replicas fail at once."""
    hang: Span | None = None
    """Answers within are applied when it ends, the last one only."""
    restart_every: float = 0.0
    memory_lost: bool = False
    clock_step: float = 0.0
    """Seconds by which the wall clock jumps at `clock_step_at`."""
    clock_step_at: float = 1800.0
    dropped_share: float = 0.0
    """This share of answers is never applied."""
    doubled_share: float = 0.0
    """This share of starts is carried out twice."""


@dataclass(frozen=True, slots=True)
class World:
    """One experiment but for the planner and the seed."""

    name: str
    traffic: Traffic
    seconds: float
    slo: Slo = Slo()
    calibration: Calibration = field(default_factory=Calibration)
    pools: tuple[PoolSpec, ...] = BASE_AND_BURST
    initial: int = 4
    """Replicas that are ready when it begins, base first."""
    start_seconds: float = 240.0
    start_spread: float = 0.12
    """Standard deviation of the start time over its mean."""
    drain_deadline: float = 300.0
    signal_window: float = 30.0
    """Seconds over which rates and quantiles are taken."""
    budget_gpus: int | None = None
    faults: Faults = field(default_factory=Faults)
    fluid: bool = False
    """Play engines as fluids (`fluid.py`) instead of step by step: for weeks."""


class Planner(Protocol):
    """Something that sizes pools: ours, or another system's algorithm."""

    name: str
    tick_seconds: float

    def plan(self, seen: Observation) -> Answer:
        """Decide once; called every `tick_seconds`."""
        ...

    def restart(self, *, memory_lost: bool) -> None:
        """The controller was started anew."""
        ...
