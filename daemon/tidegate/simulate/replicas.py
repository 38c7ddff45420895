"""The fleet of a simulation: replicas that start, serve, drain and stop, and the gateway before them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.simulate.engine import Engine, Request
from tidegate.simulate.fluid import AnyEngine, FluidEngine
from tidegate.simulate.observation import PoolAnswer
from tidegate.simulate.tally import Counts
from tidegate.simulate.world import PoolSpec, Random, World

FAILED_SHOWN = 60.0
"""Seconds for which a failed replica stays in sight."""


@dataclass(slots=True)
class Replica:
    """One replica from the request to the stop."""

    id: str
    pool: PoolSpec
    requested_at: float
    ready_at: float
    """When it will be ready, or fail."""
    fails: str = ""
    silent: bool = False
    state: str = "starting"
    since: float = 0.0
    deadline: float = math.inf
    engine: AnyEngine | None = None
    ready_since: float = math.inf
    history: deque[tuple[float, Counts]] = field(default_factory=deque)


@dataclass(slots=True)
class Books:
    """What a run cost and did."""

    replica_seconds: dict[str, float] = field(default_factory=dict)
    started: int = 0
    failed: int = 0
    cancelled: int = 0
    short_lived: int = 0
    """Drained before they had served as long as they took to start."""
    cut_off: list[Request] = field(default_factory=list)
    """Unfinished when their replica's drain deadline struck."""
    peak_gpus: int = 0


class Replicas:
    """All replicas of a run. Times are seconds since its beginning."""

    def __init__(self, world: World, random: Random) -> None:
        """The initial replicas are ready at 0."""
        self.world = world
        self.books = Books({pool.name: 0.0 for pool in world.pools})
        self.live: list[Replica] = []
        self._random = random
        self._serial = 0
        left = world.initial
        for pool in world.pools:
            for _ in range(max(pool.min, min(pool.max, left))):
                self._ready(self._made(pool, 0.0, 0.0), 0.0)
                left -= 1

    def of(self, pool: str, *states: str) -> list[Replica]:
        """A pool's replicas in one of the states, in the order of their requests."""
        return [one for one in self.live if one.pool.name == pool and one.state in states]

    def routable(self) -> list[AnyEngine]:
        """Engines that take new requests."""
        return [one.engine for one in self.live if one.state == "ready" and one.engine]

    def next_change(self, until: float) -> float:
        """When the next replica becomes ready or fails, at most `until`."""
        return min((one.ready_at for one in self.live if one.state == "starting"), default=until)

    def settle(self, now: float) -> None:
        """Let everything that is due by `now` have happened: starts end, drained replicas stop, deadlines strike."""
        for one in list(self.live):
            if one.state == "starting" and one.ready_at <= now:
                if one.fails:
                    self._fail(one, one.ready_at)
                else:
                    self._ready(one, one.ready_at)
            elif one.state == "draining" and one.engine and not one.engine.in_flight:
                self._stop(one, min(now, max(one.since, one.engine.t)))
            elif one.state == "draining" and now >= one.deadline:
                self.books.cut_off += one.engine.take_all() if one.engine else []
                self._stop(one, one.deadline)
            elif one.state == "failed" and now - one.since >= FAILED_SHOWN:
                self.live.remove(one)

    def apply(self, pool: PoolSpec, answer: PoolAnswer, now: float) -> None:
        """Carry out one pool's part of a plan: victims, replicas taken back, then starts up to the target."""
        mine = {one.id: one for one in self.live if one.pool.name == pool.name}
        for name in answer.victims:
            if name in mine:
                self._let_go(mine[name], now)
        for name in answer.uncordon:
            if name in mine and mine[name].state == "draining":
                mine[name].state, mine[name].since, mine[name].deadline = "ready", now, math.inf
        missing = answer.target - len(self.of(pool.name, "starting", "ready"))
        doubled = self.world.faults.doubled_share
        for _ in range(max(0, missing)):
            self._start(pool, now)
            if doubled and self._random.random() < doubled and self._room(pool):
                self._start(pool, now)
        self._note_peak()

    def stop_all(self, now: float) -> Iterator[Request]:
        """End the books; yields the requests that never finished."""
        for one in self.live:
            if one.state != "failed":
                self._pay(one, now)
            if one.engine:
                yield from one.engine.take_all()
        self.live.clear()

    def _room(self, pool: PoolSpec) -> bool:
        return len(self.of(pool.name, "starting", "ready", "draining")) < pool.max

    def _made(self, pool: PoolSpec, now: float, ready_at: float) -> Replica:
        self._serial += 1
        one = Replica(f"{pool.name}-{self._serial}", pool, now, ready_at, since=now)
        one.silent = bool(self._random.random() < self.world.faults.silent_share)
        self.live.append(one)
        return one

    def _start(self, pool: PoolSpec, now: float) -> None:
        world, faults = self.world, self.world.faults
        spread = max(0.3, 1.0 + world.start_spread * float(self._random.standard_normal()))
        one = self._made(pool, now, now + world.start_seconds * spread)
        self.books.started += 1
        live = sum(other.state in {"starting", "ready", "draining"} for other in self.live)
        if faults.quota is not None and live > faults.quota:
            one.fails, one.ready_at = "quota exceeded", now + 1.0
        elif self._random.random() < faults.failed_start_share:
            one.fails, one.ready_at = "health check failed", now + world.start_seconds * spread

    def _ready(self, one: Replica, at: float) -> None:
        world = self.world
        one.engine = FluidEngine(world.calibration, world.slo, at) if world.fluid else Engine(world.calibration, at)
        one.state, one.since, one.ready_since = "ready", at, at

    def _fail(self, one: Replica, at: float) -> None:
        self._pay(one, at)
        self.books.failed += 1
        one.state, one.since = "failed", at

    def _let_go(self, one: Replica, now: float) -> None:
        if one.state == "starting":
            self.books.cancelled += 1
            self._stop(one, now)
        elif one.state == "ready":
            self.books.short_lived += now - one.ready_since < self.world.start_seconds and one.requested_at > 0
            one.state, one.since = "draining", now
            one.deadline = now + self.world.drain_deadline

    def _stop(self, one: Replica, at: float) -> None:
        self._pay(one, at)
        self.live.remove(one)

    def _pay(self, one: Replica, until: float) -> None:
        self.books.replica_seconds[one.pool.name] += max(0.0, until - one.requested_at)

    def _note_peak(self) -> None:
        gpus = sum(one.pool.gpus_per_replica for one in self.live if one.state != "failed")
        self.books.peak_gpus = max(self.books.peak_gpus, gpus)
