"""Case A: what autoscalers made of metrics that were missing, broken or misread, and what is made of them here.

Each test bears the number of its complaint and the public threads that it comes from.
"""

from __future__ import annotations

import copy
import math
from datetime import timedelta

import pytest
from fakes.configuration import complaints
from fakes.controller_world import H1, engine, host_state, reading, record
from fakes.observations import JSON, line, observation, pool, replica, signals
from fakes.planner_story import Mischief, Story, all_signals, blind, each_replica
from fakes.world import NOON

from tidegate.controller.hostview import Freshness, Sources, host_views
from tidegate.controller.signals import replica_signals
from tidegate.decide.plan import plan
from tidegate.link.planner.session import Session
from tidegate.model.fleet import Idle, Signal, SignalName, Value
from tidegate.model.memory import Memory
from tidegate.model.reading import Gap, Missing
from tidegate.wire import HostRecord

BUSY, CALM = 14.0, 3.0
"""Requests per second: several replicas' worth, and less than one's."""


@pytest.fixture(scope="module")
def _settled() -> Story:
    """A tenant that has learned what it carries, at the top of its day."""
    story = Story()
    story.run(CALM, 20)
    story.run(BUSY, 40)
    assert story.size >= 4
    return story


@pytest.fixture
def settled(_settled: Story) -> Story:
    return copy.deepcopy(_settled)


def test_a1_a_metric_store_that_is_away_is_no_idle_fleet(settled: Story) -> None:
    """dynamo#14765: a failed read came back as 0, and the planner shrank at the peak."""
    before, plans = settled.size, len(settled.plans)
    settled.mischief = [blind]
    settled.run(BUSY, 10)
    assert set(settled.sizes[plans:]) == {before}
    assert "missing_data" in settled.limits("base") + settled.limits("burst")
    settled.mischief = []
    settled.run(BUSY, 10)
    assert settled.size >= before - 1


def test_a2_no_traffic_is_idle_and_shrinks_although_its_latencies_are_undefined() -> None:
    """dynamo#6985, #3131: 0/0 of no request was NaN, every tick was skipped, and seven replicas stayed for ever."""
    story = Story(low=1)
    story.run(CALM, 10)
    story.run(BUSY, 30)
    grown = story.size

    def silence(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["signals"]:
                found["signals"] |= {"ttft_p95_s": None, "tpot_p95_s": math.nan, "request_rate": 0}

    story.mischief = [silence]
    story.run(0.0, 60)
    assert story.size == 1 < grown


@pytest.mark.parametrize("value", [math.nan, math.inf, -9.2e15, "NaN"])
def test_a3_what_is_no_number_is_refused_where_it_is_read_and_counted(settled: Story, value: float) -> None:
    """keda#7475: a NaN became -9.2e15 on its way through an integer."""
    before = settled.size
    settled.mischief = [all_signals(value)]
    made = settled.run(BUSY, 10)
    assert settled.size == before
    assert any("taken as missing" in reason for reason in made["reasons"])


def test_a4_a_store_that_lost_its_targets_says_nothing_not_zero(settled: Story) -> None:
    """keda#3065: null was read as 0, and everything went to the minimum at the peak."""
    before = settled.size
    settled.mischief = [all_signals(None)]
    settled.run(BUSY, 10)
    assert settled.size == before


def test_a6_what_is_missing_holds_in_every_state_also_at_the_minimum_and_from_nothing() -> None:
    """keda#4249, #7239: the fallback did not act at zero replicas. There is no special state here."""
    story = Story(low=2)
    story.tenant.replicas["base"].clear()
    story.mischief = [blind]
    story.run(CALM, 3)
    assert story.size == 2


def test_a7_one_signal_that_is_missing_may_stop_a_scale_in_and_never_a_scale_out(settled: Story) -> None:
    """k8s#99394: one of two metrics was missing, the other said down, and down it went."""

    def without_waiting(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["signals"]:
                found["signals"]["waiting"] = None

    before, told = settled.size, len(settled.victims)
    settled.mischief = [without_waiting]
    settled.run(CALM, 20)
    assert settled.size == before
    assert len(settled.victims) == told


def test_a8_one_dead_exporter_does_not_block_a_scale_in_for_hours(settled: Story) -> None:
    """k8s#127193: 1 of 160 pods without a metric kept twice the fleet for eight hours."""

    def one_silent(seen: JSON) -> None:
        ready = [found for found in each_replica(seen) if found["state"] == "ready"]
        if len(ready) > 1:
            ready[0]["signals"] = None

    before = settled.size
    settled.mischief = [one_silent]
    settled.run(CALM, 60)
    assert settled.size < before


def never_speak(*of_eight: int) -> Mischief:
    """So many of eight replicas never give a signal, whatever becomes of the rest: by their names, first come first."""

    def spoil(seen: JSON) -> None:
        for found in each_replica(seen):
            if int(found["id"].removeprefix("node")) % 8 in of_eight:
                found["signals"] = None

    return spoil


def no_arrivals(seen: JSON) -> None:
    """The gateway does not say how many requests come in."""
    seen["gateway"]["arrival_rps"] = None


def test_a8_what_a_gateway_says_bounds_what_half_of_the_replicas_may_carry(settled: Story) -> None:
    """Three of eight that never speak are more than the share that is taken on trust; that would hold for ever."""
    settled.run(2 * BUSY, 40)
    heard = copy.deepcopy(settled)
    heard.run(CALM, 60)
    before = settled.size
    unheard = copy.deepcopy(settled)
    settled.mischief = [never_speak(1, 4, 6)]
    unheard.mischief = [never_speak(1, 4, 6), no_arrivals]
    settled.run(CALM, 60)
    unheard.run(CALM, 60)
    assert settled.size == heard.size < before
    assert unheard.size == before
    assert "missing_data" in unheard.limits("base")


def test_a8_too_many_silent_ones_hold_and_say_so(settled: Story) -> None:
    def most_are_silent(seen: JSON) -> None:
        ready = [found for found in each_replica(seen) if found["state"] == "ready"]
        for found in ready[: len(ready) // 2 + 1]:
            found["signals"] = None

    before = settled.size
    settled.mischief = [most_are_silent]
    settled.run(CALM, 30)
    assert settled.size == before
    assert "missing_data" in settled.limits("base") + settled.limits("burst")


def test_a10_what_a_replica_that_is_gone_once_said_counts_no_more(settled: Story) -> None:
    """llm-d#368: the maximum over a minute kept deleted pods' saturation, and 2 -> 1 -> 2 went round without a load."""
    settled.run(CALM, 60)
    low, begun = settled.size, len(settled.sizes)
    settled.run(CALM, 60)
    assert max(settled.sizes[begun:]) <= low


def prompt_rate(*totals: float) -> Signal:
    """What is read in an engine whose counter showed these totals, one scrape after the other."""
    times = [NOON - timedelta(seconds=15 * number) for number in reversed(range(len(totals)))]
    looks = [
        reading(H1, at, [engine("base-1", at, running=0.0, queue_depth=0.0, prompt_tokens=total)])
        for at, total in zip(times, totals, strict=True)
    ]
    fresh = Freshness(timedelta(minutes=5), timedelta(minutes=5))
    hosts = [HostRecord(H1, NOON, host_state(1), revoked=False)]
    view = host_views(Sources(hosts, {H1: looks}, []), fresh, NOON)[H1]
    return replica_signals(record("base-1", H1), view, fresh, NOON)[SignalName.PROMPT_TOKENS]


def test_a12_counters_are_never_gauges_and_a_reset_is_never_negative() -> None:
    """kthena#1037, #1042: a counter stayed at 50 for ever; after a restart the rate was 0 or negative."""
    assert prompt_rate(50.0, 50.0, 50.0) == Idle()
    assert prompt_rate(0.0, 1500.0, 3000.0) == Value(100.0)
    after_restart = prompt_rate(9000.0, 30.0, 330.0)
    assert isinstance(after_restart, Value)
    assert 0 < after_restart.value <= 330 / 15
    assert prompt_rate(50.0) == Missing(Gap.ONE_SCRAPE)


def test_a13_a_gpu_that_is_fully_used_asks_for_nothing_by_itself(settled: Story) -> None:
    """dcgm-exporter#301: utilisation is 100 % with one request. It may confirm that all are idle, nothing else."""
    settled.run(CALM, 60)

    def hot(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["signals"]:
                found["signals"]["gpu_utilization"] = 1.0

    before, begun = settled.size, len(settled.sizes)
    settled.mischief = [hot]
    settled.run(CALM, 20)
    assert max(settled.sizes[begun:]) <= before


def test_a14_a_queue_asks_for_capacity_while_the_kv_cache_is_nearly_empty() -> None:
    """llm-d#662: prompts queued up, the KV cache stayed at 32 %, and nothing was started."""
    story = Story(low=1, high=4)

    def long_prompts(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["signals"]:
                found["signals"]["kv_usage"] = 0.32

    story.mischief = [long_prompts]
    story.run(CALM, 15)
    story.run(BUSY, 15)
    assert story.size >= 3


def test_a15_a_target_that_can_never_be_reached_is_an_error_of_the_file() -> None:
    """LLMKube#482, ray#24793: a gauge that ends at 1 can never reach 2. Told at load, with the line."""
    text = '[[service]]\nname = "s"\npolicy = "threshold"\n[service.threshold]\nscale_out_threshold_gpu_util = 1\n'
    (told,) = complaints(text)
    assert told.startswith("5: service[s].threshold.scale_out_threshold_gpu_util: must be below 1")


def test_a16_replicas_that_crash_are_no_reason_for_more_of_them() -> None:
    """k8s#87199: new pods crashed, gave no metric, and the autoscaler ran to its maximum."""
    story = Story(start_s=1e9)
    story.run(CALM, 10)
    ordered = story.tenant.made

    def crashing(seen: JSON) -> None:
        for found in each_replica(seen):
            if found["state"] == "starting" and story.tenant.now - found["since"] > 30:
                found |= {"state": "failed", "why": "CUDA error: out of memory", "signals": None}

    story.mischief = [crashing]
    story.run(BUSY, 60)
    assert story.tenant.made - ordered <= 60
    assert max(story.sizes) <= 12
    assert any(
        "start_failed" in made["pools"][name]["limits"] for made in story.plans[-40:] for name in ("base", "burst")
    )


def test_a17_from_nothing_the_gateways_queue_wakes_the_fleet() -> None:
    """llm-d PR#2492: at zero replicas the engine's series does not exist, so from-zero never fired."""
    empty = observation(pools={"burst": pool(high=4)}, gateway={"waiting": 7, "arrival_rps": 0.5})
    turn = Session(plan).turn(line(empty), 1, Memory())
    assert b'"target": 1' in turn.answer
    quiet = observation(pools={"burst": pool(high=4)}, gateway={"waiting": 0, "arrival_rps": 0})
    assert b'"target": 0' in Session(plan).turn(line(quiet), 1, Memory()).answer


def test_a_story_is_told_with_signals_of_the_kind_that_engines_give() -> None:
    """The tenant of these stories answers as the planner's documentation says."""
    assert set(signals()) == set(replica("x")["signals"])
