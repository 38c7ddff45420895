"""`run(world, planner, seed)`: one experiment, tick by tick, with the promises checked as it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tidegate.simulate.fluid import FluidGateway
from tidegate.simulate.gateway import Gateway
from tidegate.simulate.observation import Answer, Observation
from tidegate.simulate.outcome import DAY, HOUR, Outcome, TickNote, Verdicts
from tidegate.simulate.promises import checked
from tidegate.simulate.replicas import Replicas
from tidegate.simulate.signals import Watch
from tidegate.simulate.world import Planner, World

_LONGEST_TAIL = 1800.0
"""Seconds for which the requests that came last are waited for."""


Progress = Callable[[float], None]
"""Told the simulated second after each tick."""


def run(world: World, planner: Planner, seed: int = 0, progress: Progress | None = None) -> Outcome:
    """Play a world with a planner; the same arguments give the same outcome.

    Raises `BrokenPromise` when an answer breaks an invariant (see `promises.py`).
    """
    return _Run(world, planner, seed).play(progress or (lambda _: None))


@dataclass(slots=True)
class _Tally:
    last_target: int = -1
    direction: int = 0
    reversals: int = 0
    changes: int = 0
    blind_shrinks: int = 0
    blind_growths: int = 0
    ticks: list[TickNote] = field(default_factory=list)


class _Run:
    def __init__(self, world: World, planner: Planner, seed: int) -> None:
        self._world, self._planner, self._seed = world, planner, seed
        traffic, self._random = (np.random.default_rng([seed, stream]) for stream in (1, 2))
        gateway = FluidGateway if world.fluid else Gateway
        self._gateway: Gateway | FluidGateway = gateway(world.traffic(traffic), world.seconds)
        self._replicas = Replicas(world, self._random)
        self._watch = Watch(world)
        self._verdicts = Verdicts(world)
        self._tally = _Tally()
        self._held: Answer | None = None
        self._restarted = 0

    def play(self, progress: Progress) -> Outcome:
        """All ticks, then the tail."""
        tick, now, index = self._planner.tick_seconds, 0.0, 0
        end = self._world.seconds
        while now < end:
            index += 1
            now = min(end, index * tick)
            self._advance(now)
            self._tick(now)
            progress(now)
        self._advance(end + _LONGEST_TAIL, serving=False)
        return self._outcome(end)

    def _advance(self, until: float, *, serving: bool = True) -> None:
        replicas, at = self._replicas, until
        while serving and (at := replicas.next_change(until)) < until:
            self._serve(at)
            replicas.settle(at)
        self._serve(until)
        if serving:
            replicas.settle(until)

    def _serve(self, until: float) -> None:
        self._gateway.feed(self._replicas.routable(), until)
        for one in self._replicas.live:
            if one.engine is None:
                continue
            if one.state == "draining":
                one.engine.advance(until)
            one.engine.report(self._verdicts)

    def _tick(self, now: float) -> None:
        faults = self._world.faults
        if faults.restart_every and now // faults.restart_every > self._restarted:
            self._restarted += 1
            self._planner.restart(memory_lost=faults.memory_lost)
        seen = self._watch.observe(self._replicas, now, self._gateway.waiting, self._gateway.arrived)
        answer = checked(self._planner.plan(seen), seen)
        self._note(seen, answer, now)
        if faults.dropped_share and self._random.random() < faults.dropped_share:
            return
        if faults.hang is not None and faults.hang.holds(now):
            self._held = answer
            return
        self._held = None
        for pool in self._world.pools:
            if pool.name in answer.pools:
                self._replicas.apply(pool, answer.pools[pool.name], now)

    def _note(self, seen: Observation, answer: Answer, now: float) -> None:
        tally = self._tally
        target = sum(pool.target for pool in answer.pools.values())
        supply = len(seen.replicas("starting", "ready"))
        if _blind(seen):
            tally.blind_shrinks += target < supply or any(pool.victims for pool in answer.pools.values())
            tally.blind_growths += target > supply and target > tally.last_target
        if tally.last_target >= 0 and target != tally.last_target:
            direction = 1 if target > tally.last_target else -1
            tally.changes += 1
            tally.reversals += direction == -tally.direction
            tally.direction = direction
        tally.last_target = target
        ready = seen.replicas("ready")
        tally.ticks.append(
            TickNote(
                now,
                target,
                len(ready),
                len(seen.replicas("starting")),
                len(seen.replicas("draining")),
                self._gateway.waiting + sum(engine.waiting for engine in self._replicas.routable()),
                sum(engine.running for engine in self._replicas.routable()),
                "; ".join(dict.fromkeys(pool.reason for pool in answer.pools.values() if pool.reason)),
            )
        )

    def _outcome(self, end: float) -> Outcome:
        replicas, verdicts, tally, world = self._replicas, self._verdicts, self._tally, self._world
        unfinished = 0
        for request in [*replicas.stop_all(end), *self._gateway.left_over()]:
            verdicts.judge(request)
            unfinished += 1
        books = replicas.books
        for request in books.cut_off:
            verdicts.judge(request)
        hours = {pool.name: books.replica_seconds[pool.name] / HOUR for pool in world.pools}
        requests = round(sum(verdicts.total))
        return Outcome(
            world=world.name,
            planner=self._planner.name,
            seed=self._seed,
            attainment=1 - sum(verdicts.missed) / max(1, requests),
            ttft_attainment=1 - sum(verdicts.late_first) / max(1, requests),
            tpot_attainment=1 - sum(verdicts.slow) / max(1, requests),
            requests=requests,
            lost_in_drain=len(books.cut_off),
            unfinished=unfinished,
            base_gpu_hours=sum(hours[pool.name] * pool.gpus_per_replica for pool in world.pools if pool.kind == "base"),
            burst_gpu_hours=sum(
                hours[pool.name] * pool.gpus_per_replica for pool in world.pools if pool.kind != "base"
            ),
            cost=sum(hours[pool.name] * pool.price_per_hour for pool in world.pools),
            reversals=tally.reversals,
            reversals_per_day=tally.reversals * DAY / world.seconds,
            changes=tally.changes,
            started=books.started,
            wasted_starts=books.cancelled + books.short_lived,
            failed_starts=books.failed,
            peak_gpus=books.peak_gpus,
            blind_shrinks=tally.blind_shrinks,
            blind_growths=tally.blind_growths,
            minutes=tuple(zip(verdicts.total, verdicts.late_first, verdicts.slow, verdicts.missed, strict=True)),
            ticks=tuple(tally.ticks),
        )


def _blind(seen: Observation) -> bool:
    """Whether nothing at all is known of the load."""
    known = seen.arrival_rps is not None or seen.gateway_waiting is not None
    return not known and all(replica.signals is None for replica in seen.replicas("ready"))
