"""Pool figures: sums over sums, never averages of ratios; what is missing says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from fakes.controller_world import BURST, H2, engine, fleet_policy, host_state, reading, record, with_ttft

from tidegate.controller.figures import PoolReport, pool_reports
from tidegate.controller.gather import gather
from tidegate.controller.hostview import Freshness, Sources
from tidegate.model.decision import Decision
from tidegate.model.fleet import ReplicaState
from tidegate.model.policy import Mode
from tidegate.model.reading import EngineName, EngineReading, EngineState, Gap, Missing
from tidegate.wire import HostRecord

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
FRESH = Freshness(view_window=timedelta(seconds=60), stale_after=timedelta(seconds=60))


def report_of(
    *replicas: Sequence[EngineReading],
    gpus: Sequence[float] = (),
    cost: Decimal | Missing | None = None,
    states: Mapping[str, ReplicaState] | None = None,
) -> PoolReport:
    """The burst pool's report over replicas burst-1, burst-2, ..., each with its readings, ten seconds apart."""
    records = [record(f"burst-{number}", slot=number - 1) for number in range(1, len(replicas) + 1)]
    length = max((len(found) for found in replicas), default=0)
    times = [NOON - timedelta(seconds=10 * (length - step) - 5) for step in range(length)]
    readings = [
        reading(H2, at, [replace(found[step], at=at) for found in replicas if step < len(found)], gpus)
        for step, at in enumerate(times)
    ]
    seen = {str(found.id): ReplicaState.READY for found in records} | dict(states or {})
    host = HostRecord(H2, NOON, host_state(4, replicas=seen), revoked=False)
    gathered = gather(Sources([host], {H2: readings}, records), fleet_policy(), FRESH, NOON)
    costs = {} if cost is None else {BURST: cost}
    return next(r for r in pool_reports(gathered, [], fleet_policy(), costs, NOON) if r.figures.pool == BURST)


def test_the_hit_rate_is_hits_over_lookups_of_all_replicas() -> None:
    """90 of 100 and 0 of 900 is 9 %, not the 45 % that averaging the two would give."""
    good = [
        engine("burst-1", NOON, cache_hits=0.0, cache_queries=0.0),
        engine("burst-1", NOON, cache_hits=90.0, cache_queries=100.0),
    ]
    bad = [
        engine("burst-2", NOON, cache_hits=0.0, cache_queries=0.0),
        engine("burst-2", NOON, cache_hits=0.0, cache_queries=900.0),
    ]

    assert report_of(good, bad).figures.kv_cache_hit_rate == pytest.approx(0.09)


def test_tokens_per_gpu_are_prompt_and_generated_tokens_over_the_gpus_of_the_replicas_that_serve() -> None:
    """Two replicas of one GPU, 300 + 100 tokens in ten seconds between them: 20 tokens a GPU and second."""
    one = [
        engine("burst-1", NOON, prompt_tokens=0.0, generation_tokens=0.0),
        engine("burst-1", NOON, prompt_tokens=300.0, generation_tokens=100.0),
    ]
    idle = [engine("burst-2", NOON, prompt_tokens=5.0, generation_tokens=5.0)] * 2

    figures = report_of(one, idle).figures

    assert figures.prompt_tokens_per_second == pytest.approx(30.0)
    assert figures.generation_tokens_per_second == pytest.approx(10.0)
    assert figures.tokens_per_gpu_per_second == pytest.approx(20.0)


def test_a_leaving_replica_holds_its_gpu_while_it_serves() -> None:
    """What it serves is counted, so its GPU is: else each drain would look like a gain."""
    busy = [
        engine("burst-1", NOON, prompt_tokens=0.0, generation_tokens=0.0),
        engine("burst-1", NOON, prompt_tokens=300.0, generation_tokens=100.0),
    ]
    leaving = [replace(found, engine=EngineName("burst-2")) for found in busy]

    found = report_of(busy, leaving, states={"burst-2": ReplicaState.DRAINING}).figures

    assert (found.ready, found.leaving, found.gpus) == (1, 1, 2)
    assert found.tokens_per_gpu_per_second == pytest.approx(40.0)


def test_a_rate_of_which_one_replica_is_missing_says_so() -> None:
    """Its tokens are not known; they are not taken for none."""
    known = [engine("burst-1", NOON, prompt_tokens=0.0), engine("burst-1", NOON, prompt_tokens=300.0)]
    silent = [engine("burst-2", NOON, EngineState.UNREACHABLE)] * 2

    found = report_of(known, silent)

    assert found.figures.prompt_tokens_per_second == pytest.approx(30.0)
    assert found.gaps["prompt_tokens_per_second"] == "1 of 2 replicas missing (unreachable)"


@pytest.mark.parametrize(
    ("readings", "why"),
    [
        ([engine("burst-1", NOON, cache_hits=1.0, cache_queries=2.0, prompt_tokens=1.0)], "one_scrape"),
        ([engine("burst-1", NOON, EngineState.UNREACHABLE)] * 2, "unreachable"),
    ],
)
def test_without_a_window_every_figure_of_one_gives_the_same_reason(readings: list[EngineReading], why: str) -> None:
    """A first reading is no engine that lacks the figure."""
    gaps = report_of(readings).gaps
    windowed = ("kv_cache_hit_rate", "prompt_tokens_per_second", "ttft_p95_seconds", "tokens_per_gpu_per_second")
    assert [gaps[name] for name in windowed] == [why] * 4


def test_a_hit_rate_is_never_above_one() -> None:
    """Some releases count a retried lookup's hits twice."""
    twice = [
        engine("burst-1", NOON, cache_hits=0.0, cache_queries=0.0),
        engine("burst-1", NOON, cache_hits=120.0, cache_queries=100.0),
    ]

    assert report_of(twice).figures.kv_cache_hit_rate == 1.0


def test_a_restart_inside_the_window_gives_no_negative_rate() -> None:
    """A counter that fell is counted from zero: a lower bound."""
    restarted = [engine("burst-1", NOON, generation_tokens=1000.0), engine("burst-1", NOON, generation_tokens=40.0)]

    assert report_of(restarted).figures.generation_tokens_per_second == pytest.approx(4.0)


def test_a_quantile_comes_from_the_summed_buckets_of_all_replicas() -> None:
    """Nineteen fast answers of one replica and one slow of another: the 95th percentile is still fast."""
    fast = [
        with_ttft(engine("burst-1", NOON, steps=0.0), (0, 0, 0)),
        with_ttft(engine("burst-1", NOON, steps=1.0), (19, 19, 19)),
    ]
    slow = [
        with_ttft(engine("burst-2", NOON, steps=0.0), (0, 0, 0)),
        with_ttft(engine("burst-2", NOON, steps=1.0), (0, 1, 1)),
    ]

    assert report_of(fast, slow).figures.ttft_p95_seconds == pytest.approx(0.1)


def test_replicas_with_other_buckets_are_left_out_of_a_quantile_and_that_is_said() -> None:
    """Buckets of different bounds cannot be added."""
    one = [
        with_ttft(engine("burst-1", NOON, steps=0.0), (0, 0, 0)),
        with_ttft(engine("burst-1", NOON, steps=1.0), (9, 9, 9)),
    ]
    other = [
        with_ttft(engine("burst-2", NOON, steps=0.0), (0, 0), bounds=(0.5,)),
        with_ttft(engine("burst-2", NOON, steps=1.0), (9, 9), bounds=(0.5,)),
    ]

    assert report_of(one, other).gaps["ttft_p95_seconds"] == "1 of 2 replicas left out (other buckets)"


def test_a_sum_over_replicas_of_which_one_is_missing_says_so() -> None:
    """The queue of the others is shown, with a word that it is not all."""
    good = [engine("burst-1", NOON, running=3.0, queue_depth=2.0, steps=1.0)]
    down = [engine("burst-2", NOON, EngineState.UNREACHABLE)]

    found = report_of(good, down)

    assert (found.figures.queue_depth, found.figures.running) == (2.0, 3.0)
    assert found.gaps["queue_depth"] == "1 of 2 replicas missing (unreachable)"


def test_no_traffic_gives_no_ratio_and_no_quantile() -> None:
    """Not zero per cent."""
    still = [with_ttft(engine("burst-1", NOON, cache_hits=5.0, cache_queries=9.0), (1, 2, 3))] * 2

    found = report_of(still)

    assert found.figures.kv_cache_hit_rate is None
    assert found.gaps["kv_cache_hit_rate"] == found.gaps["ttft_p95_seconds"] == "no_traffic"


def test_a_pool_without_replicas_has_no_figures_and_says_why() -> None:
    """An empty burst pool has no queue, which is another thing than a queue of zero."""
    found = report_of()

    assert found.figures.queue_depth is None
    assert found.gaps["queue_depth"] == "no replica serves"
    assert found.figures.target == 0


def test_the_cost_is_the_one_of_the_trailing_hour_or_says_why_there_is_none() -> None:
    """It was worked out beside the tick, from decimals."""
    still = [engine("burst-1", NOON, running=0.0, queue_depth=0.0)] * 2

    assert report_of(still, cost=Decimal("1.25")).figures.cost_per_million_tokens == 1.25
    assert report_of(still, cost=Missing(Gap.NO_TRAFFIC)).gaps["cost_per_million_tokens"] == "no_traffic"


def test_gpu_utilisation_is_the_mean_over_the_replicas_gpus() -> None:
    """Only the GPUs that the pool holds: the third one is somebody else's."""
    two = [[engine(f"burst-{number}", NOON, running=1.0, queue_depth=0.0, steps=1.0)] for number in (1, 2)]

    assert report_of(*two, gpus=(0.5, 0.9, 0.0)).figures.gpu_utilization == pytest.approx(0.7)


def test_the_target_is_the_decisions() -> None:
    """Where there is a decision."""
    decided = Decision(BURST, NOON, 0, 0, 0, 0, 3, 2, "because", (), (), Mode.ACT, None)
    gathered = gather(Sources([], {}, []), fleet_policy(), FRESH, NOON)

    targets = {r.figures.pool: r.figures.target for r in pool_reports(gathered, [decided], fleet_policy(), {}, NOON)}

    assert targets == {"base": 0, "burst": 2}
