"""From replicas to what a planner is shown: gauges of the moment, rates and quantiles of the last window, faults."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from tidegate.simulate.observation import Observation, SeenPool, SeenReplica, Signals
from tidegate.simulate.replicas import Replica, Replicas
from tidegate.simulate.tally import TPOT_BOUNDS, TTFT_BOUNDS, Counts, quantile
from tidegate.simulate.world import World

_NAN = math.nan
_ALL_NAN = Signals(_NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN, _NAN)


@dataclass(slots=True)
class Watch:
    """Makes observations; remembers the counters of the last window and the replicas' wall-clock times."""

    world: World
    _arrived: deque[tuple[float, int]] = field(default_factory=deque)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def observe(self, replicas: Replicas, now: float, waiting: int, arrived: int) -> Observation:
        """What is seen at `now`: `waiting` requests in the gateway's room, `arrived` so far in all."""
        world, faults = self.world, self.world.faults
        dark = faults.outage is not None and faults.outage.holds(now)
        clock = faults.clock_step if now >= faults.clock_step_at else 0.0
        rate = self._rate(now, arrived)
        seen = [(one, self._seen(one, now, clock, dark=dark)) for one in replicas.live]
        self._since = {one.id: (shown.state, shown.since) for one, shown in seen}
        pools = {
            pool.name: SeenPool(
                pool.kind,
                pool.min,
                pool.max,
                pool.gpus_per_replica,
                pool.price_per_hour,
                tuple(shown for one, shown in seen if one.pool is pool),
            )
            for pool in world.pools
        }
        return Observation(
            now=now + clock,
            ttft_s=world.slo.ttft_s,
            tpot_s=world.slo.tpot_s,
            gateway_waiting=None if dark else waiting,
            arrival_rps=None if dark else rate,
            pools=pools,
            budget_gpus=world.budget_gpus,
        )

    def _seen(self, one: Replica, now: float, clock: float, *, dark: bool) -> SeenReplica:
        signals = self._signals(one, now)
        faults = self.world.faults
        if signals and faults.not_a_number is not None and faults.not_a_number.holds(now):
            signals = _ALL_NAN
        if dark or one.silent:
            signals = None
        # a moment keeps the reading of the clock that it was noted with
        noted = self._since.get(one.id)
        since = noted[1] if noted and noted[0] == one.state else one.since + clock
        return SeenReplica(one.id, one.state, since, signals, one.fails if one.state == "failed" else "")

    def _rate(self, now: float, arrived: int) -> float | None:
        self._arrived.append((now, arrived))
        while len(self._arrived) > 2 and self._arrived[1][0] <= now - self.world.signal_window:
            self._arrived.popleft()
        then, before = self._arrived[0]
        return (arrived - before) / (now - then) if now > then else None

    def _signals(self, one: Replica, now: float) -> Signals | None:
        engine = one.engine
        if engine is None or one.state not in {"ready", "draining"}:
            return None
        counts, history = engine.tally.counts(), one.history
        history.append((now, counts))
        while len(history) > 2 and history[1][0] <= now - self.world.signal_window:
            history.popleft()
        then, before = history[0]
        gauges = Signals(running=engine.running, waiting=engine.waiting, kv_usage=engine.kv_usage)
        return _with_rates(gauges, before, counts, now - then) if now > then else gauges


def _with_rates(gauges: Signals, before: Counts, after: Counts, seconds: float) -> Signals:
    return Signals(
        running=gauges.running,
        waiting=gauges.waiting,
        kv_usage=gauges.kv_usage,
        prompt_tps=(after.prompt - before.prompt) / seconds,
        generation_tps=(after.generated - before.generated) / seconds,
        ttft_p95_s=quantile(TTFT_BOUNDS, before.ttft, after.ttft, 0.95),
        tpot_p95_s=quantile(TPOT_BOUNDS, before.tpot, after.tpot, 0.95),
        request_rate=(after.finished - before.finished) / seconds,
        cached_tps=(after.cached - before.cached) / seconds,
        gpu_utilization=min(1.0, (after.busy - before.busy) / seconds),
    )
