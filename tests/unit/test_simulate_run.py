"""A simulation keeps its books, plays its faults and refuses plans that break a promise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from tidegate.simulate.baselines.static import Scheduled, Static
from tidegate.simulate.clairvoyant import clairvoyant
from tidegate.simulate.faults import NAMES, faults_of
from tidegate.simulate.observation import Answer, Observation, PoolAnswer
from tidegate.simulate.outcome import Outcome
from tidegate.simulate.promises import BrokenPromise
from tidegate.simulate.run import run
from tidegate.simulate.scorecard import HEADER, Score, markdown
from tidegate.simulate.world import Faults, Span, World
from tidegate.simulate.worlds import CHAT, HUGE_MODEL, Sizes, bursty_after_silence, synthetic, varying

WORLD = World("short", varying(lambda _: 8.0, 1200, CHAT), 1200, initial=3)


@dataclass
class Recorder:
    """Plays a schedule and keeps what it was shown."""

    count: object = 3
    name: str = "recorder"
    tick_seconds: float = 15.0
    seen: list[Observation] = field(default_factory=list)
    restarts: list[bool] = field(default_factory=list)

    def plan(self, seen: Observation) -> Answer:
        self.seen.append(seen)
        count = self.count(seen.now) if callable(self.count) else self.count
        return Scheduled(lambda _: count).plan(seen)

    def restart(self, *, memory_lost: bool) -> None:
        self.restarts.append(memory_lost)


def test_the_same_arguments_give_the_same_outcome() -> None:
    world = replace(WORLD, faults=Faults(failed_start_share=0.3, silent_share=0.2))
    up = lambda now: 6 if now > 300 else 3  # noqa: E731
    assert run(world, Recorder(up), 7) == run(world, Recorder(up), 7)
    assert run(world, Recorder(up), 7) != run(world, Recorder(up), 8)


def test_a_constant_size_costs_its_time_and_serves_everyone() -> None:
    outcome = run(WORLD, Static(3))
    assert outcome.gpu_hours == pytest.approx(3 * 4 * 1200 / 3600)
    assert (outcome.burst_gpu_hours, outcome.unfinished, outcome.changes) == (0.0, 0, 0)
    assert outcome.attainment > 0.99
    assert sum(minute[0] for minute in outcome.minutes) == outcome.requests


def test_hours_run_from_the_request_to_the_stop() -> None:
    outcome = run(replace(WORLD, start_spread=0.0), Recorder(lambda now: 4 if 295 < now < 910 else 3))
    assert outcome.gpu_hours / 4 * 3600 == pytest.approx(3 * 1200 + 615, abs=60)
    assert (outcome.started, outcome.wasted_starts, outcome.reversals, outcome.lost_in_drain) == (1, 0, 1, 0)


def test_a_start_that_is_taken_back_is_wasted() -> None:
    world = replace(WORLD, start_spread=0.0, initial=4)
    cancelled = run(world, Recorder(lambda now: 5 if 295 < now < 400 else 4))
    short = run(world, Recorder(lambda now: 5 if 295 < now < 700 else 4))
    served = run(world, Recorder(lambda now: 5 if 295 < now < 1000 else 4))
    assert (cancelled.wasted_starts, short.wasted_starts, served.wasted_starts) == (1, 1, 0)


def test_a_drain_deadline_cuts_off_what_is_not_done() -> None:
    world = replace(WORLD, drain_deadline=1.0, calibration=HUGE_MODEL, initial=6)
    outcome = run(world, Recorder(lambda now: 6 if now < 600 else 3))
    assert outcome.lost_in_drain > 0
    assert sum(minute[0] for minute in outcome.minutes) == outcome.requests


def test_without_a_ready_replica_requests_wait_at_the_gateway() -> None:
    pools = tuple(replace(pool, min=0) for pool in WORLD.pools)
    planner = Recorder(lambda now: 3 if now > 100 else 0)
    outcome = run(replace(WORLD, initial=0, pools=pools), planner)
    assert max(seen.gateway_waiting or 0 for seen in planner.seen) > 500
    assert outcome.ttft_attainment < 0.8
    assert outcome.unfinished == 0


def test_signals_are_those_of_an_engine() -> None:
    planner = Recorder()
    run(WORLD, planner)
    first, second, last = planner.seen[0], planner.seen[1], planner.seen[-1]
    fresh = first.replicas("ready")[0].signals
    assert fresh is not None
    assert (fresh.prompt_tps, fresh.ttft_p95_s) == (None, None), "a rate needs two readings"
    assert second.replicas("ready")[0].signals is not None
    signals = [replica.signals for replica in last.replicas("ready")]
    assert sum(one.prompt_tps or 0 for one in signals if one) == pytest.approx(8 * 900, rel=0.4)
    assert all(one and one.tpot_p95_s and 0.01 < one.tpot_p95_s < 0.06 for one in signals)
    assert last.arrival_rps == pytest.approx(8.0, rel=0.5)


def test_an_outage_hides_everything_and_nan_is_shown_as_such() -> None:
    faults = Faults(outage=Span(300, 300), not_a_number=Span(700, 100))
    planner = Recorder()
    outcome = run(replace(WORLD, faults=faults), planner)
    dark = [seen for seen in planner.seen if 300 <= seen.now < 600]
    assert all(seen.arrival_rps is None and seen.gateway_waiting is None for seen in dark)
    assert all(replica.signals is None for seen in dark for replica in seen.replicas("ready"))
    broken = next(seen for seen in planner.seen if 700 <= seen.now < 800).replicas("ready")[0].signals
    assert broken is not None
    assert math.isnan(broken.running or 0.0)
    assert (outcome.blind_shrinks, outcome.blind_growths) == (0, 0)


def test_shrinking_in_the_dark_is_counted() -> None:
    world = replace(WORLD, initial=4, faults=Faults(outage=Span(300, 300)))
    assert run(world, Recorder(lambda now: 4 if now < 400 else 3)).blind_shrinks >= 1


def test_failed_starts_are_seen_and_go() -> None:
    world = replace(WORLD, faults=Faults(failed_start_share=1.0))
    planner = Recorder(lambda now: 4 if now > 100 else 3)
    outcome = run(world, planner)
    assert outcome.failed_starts >= 2
    assert any(replica.why == "health check failed" for seen in planner.seen for replica in seen.replicas("failed"))
    assert not planner.seen[6].replicas("failed")


def test_a_quota_refuses_what_is_over_it() -> None:
    planner = Recorder(5)
    run(replace(WORLD, faults=Faults(quota=4)), planner)
    assert max(len(seen.replicas("starting", "ready")) for seen in planner.seen) <= 5
    assert any(replica.why == "quota exceeded" for seen in planner.seen for replica in seen.replicas("failed"))
    assert len(planner.seen[-1].replicas("ready")) == 4


def test_a_hanging_actuator_a_lost_plan_and_a_doubled_start() -> None:
    hang = run(replace(WORLD, faults=Faults(hang=Span(0, 600))), Recorder(4))
    assert hang.gpu_hours / 4 * 3600 == pytest.approx(3 * 1200 + 600, abs=20)
    lost = run(replace(WORLD, faults=Faults(dropped_share=1.0)), Recorder(5))
    assert lost.started == 0
    twice = run(replace(WORLD, faults=Faults(doubled_share=1.0)), Recorder(5))
    assert twice.peak_gpus > 5 * 4


def test_restarts_and_the_clock() -> None:
    faults = Faults(restart_every=300, memory_lost=True, clock_step=3600, clock_step_at=600)
    planner = Recorder()
    run(replace(WORLD, faults=faults), planner)
    assert planner.restarts == [True] * 4
    assert planner.seen[40].now - planner.seen[38].now == pytest.approx(3630)
    assert {replica.since for replica in planner.seen[-1].replicas("ready")} == {0.0}, "noted before the step"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"base": PoolAnswer(5), "burst": PoolAnswer(0)}, "target 5 outside 2..4"),
        ({"base": PoolAnswer(3)}, "no answer for pool burst"),
        ({"base": PoolAnswer(3, victims=("base-77",)), "burst": PoolAnswer(0)}, "not all replicas"),
        ({"base": PoolAnswer(3, victims=("base-1", "base-1")), "burst": PoolAnswer(0)}, "repeat"),
        ({"base": PoolAnswer(3, uncordon=("base-1",)), "burst": PoolAnswer(0)}, "not all draining"),
        ({"base": PoolAnswer(4), "burst": PoolAnswer(1)}, "over the budget"),
    ],
)
def test_a_broken_promise_ends_the_simulation(answer: dict[str, PoolAnswer], said: str) -> None:
    class Breaking(Static):
        def plan(self, seen: Observation) -> Answer:
            return Answer(answer)

    with pytest.raises(BrokenPromise, match=said):
        run(replace(WORLD, budget_gpus=16), Breaking(3))


def test_every_fault_by_name_is_played() -> None:
    for name in NAMES:
        outcome = run(replace(WORLD, seconds=600, fluid=True, faults=faults_of(name, WORLD)), Recorder(4))
        assert outcome.requests > 0
    with pytest.raises(ValueError, match="no fault 'flood'; there are none, outage"):
        faults_of("flood", WORLD)


def test_the_fluid_agrees_with_the_steps() -> None:
    world = World("day", varying(lambda t: 10 + 8 * math.sin(t / 250), 1800, CHAT), 1800, initial=4)
    for count, apart in ((2, 0.08), (3, 0.2), (4, 0.01)):  # 3 is on the cliff, where the fluid is optimistic
        steps, fluid = run(world, Static(count)), run(replace(world, fluid=True), Static(count))
        assert steps.attainment - 0.01 <= fluid.attainment <= steps.attainment + apart, count
        assert fluid.requests == pytest.approx(steps.requests, rel=0.01)
    blind = Recorder(lambda now: 0 if now < 300 else 4)
    pools = tuple(replace(pool, min=0) for pool in world.pools)
    late = run(replace(world, fluid=True, initial=0, pools=pools), blind)
    assert late.ttft_attainment < 0.95
    assert max(seen.gateway_waiting or 0 for seen in blind.seen) > 500


def test_clairvoyance_is_cheaper_than_any_constant_and_keeps_the_goal() -> None:
    pools = (replace(WORLD.pools[0], min=2, max=6),)
    tide = varying(lambda t: 5 if t < 1200 else 13, 1800, CHAT)
    world = World("tide", tide, 1800, initial=2, fluid=True, pools=pools)
    best = clairvoyant(world, 0, run, thinning=1)
    assert best is not None
    assert best.outcome.attainment >= 0.99
    constant = min(
        outcome.gpu_hours
        for count in range(2, 7)
        if (outcome := run(replace(world, initial=count), Static(count))).attainment >= 0.99
    )
    assert best.outcome.gpu_hours < 0.95 * constant
    assert clairvoyant(replace(world, seconds=300, slo=replace(world.slo, tpot_s=0.001)), 0, run) is None


def test_the_synthetic_worlds_are_playable() -> None:
    for world in synthetic().values():
        assert run(replace(world, seconds=60), Static(6)).requests >= 0
    sizes = Sizes(1000, 20, hit_share=0.5)
    assert run(World("code", bursty_after_silence(600, sizes), 600), Static(4)).requests > 1000


def test_a_scorecard_shows_the_worst_seed() -> None:
    outcomes = tuple(run(WORLD, Static(2), seed) for seed in (0, 1))
    score = Score(outcomes, "none", 240.0, bound_hours=2.0)
    assert score.attainment == min(outcome.attainment for outcome in outcomes)
    assert score.ratio == pytest.approx(score.mean("gpu_hours") / 2.0)
    assert len(score.row()) == len(HEADER)
    assert markdown([score]).count("\n") == 2
    assert set(score.as_json()["runs"][0]) == {*Outcome.__slots__, "gpu_hours", "wasted_share"} - {"minutes", "ticks"}
    assert outcomes[0].worst(3)[0].startswith("minute ")
