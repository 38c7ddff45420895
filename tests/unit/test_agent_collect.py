"""One collection: everything at once, nothing waits for what hangs, a frozen engine is told by its standing figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from fakes.agent_parts import NOON, FakeEngines, FakeGpus, ManualClock, layout, reading

from tidegate.agent.collect import Collector, Pace
from tidegate.agent.history import stall_after, stalled, told, trimmed
from tidegate.agent.packing import Around, host_state, pack, snapshot, uncarried
from tidegate.model.figures import Figure
from tidegate.model.reading import (
    Counter,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    GpuSurvey,
    HostName,
    HostReading,
    Missing,
    Rank,
)
from tidegate.model.series import SeriesKey
from tidegate.model.snapshot import SpoolState
from tidegate.model.target import EngineTarget
from tidegate.model.unflatten import unflatten
from tidegate.model.vector import decode
from tidegate.runtime.clock import SystemClock

INTERVAL = timedelta(seconds=15)
PACE = Pace(interval=INTERVAL, window=timedelta(seconds=60), scrape_timeout=timedelta(seconds=0.2))
ONE, TWO = EngineName("vllm-0"), EngineName("vllm-1")


def target(name: str) -> EngineTarget:
    return EngineTarget(EngineName(name), f"http://127.0.0.1/{name}", pool="base", service="chat", gpu_indices=(0,))


def steady(target: EngineTarget, now: datetime) -> EngineReading:
    """Ten tokens a second since noon."""
    return reading(target.name, now, running=1.0, tokens=10 * (now - NOON).total_seconds())


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.engines = FakeEngines(steady)
        self.collector = Collector(HostName("gpu-1"), FakeGpus(), self.engines, self.clock, PACE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.engines.let_go.set()
    made.collector.close()


def test_a_hanging_engine_is_named_and_delays_no_other(bench: Bench) -> None:
    bench.engines.hanging = {"vllm-0"}
    began = time.monotonic()
    look = bench.collector.collect([target("vllm-0"), target("vllm-1")], ())
    assert time.monotonic() - began < 5.0
    assert [engine.state for engine in look.reading.engines] == [EngineState.HANGING, EngineState.READY]
    assert look.reading.gpus.up


def test_a_hanging_engine_is_asked_once_until_it_answers(bench: Bench) -> None:
    bench.engines.hanging = {"vllm-0"}
    for _ in range(3):
        bench.collector.collect([target("vllm-0")], ())
    assert bench.engines.reads == ["vllm-0"]
    bench.engines.hanging = set()
    bench.engines.let_go.set()
    for _ in range(50):
        look = bench.collector.collect([target("vllm-0")], ())
        if look.reading.engines[0].state is EngineState.READY:
            return
    raise AssertionError("never read again")


def test_a_reader_that_breaks_costs_only_its_own_engine(bench: Bench) -> None:
    def answer(target: EngineTarget, now: datetime) -> EngineReading:
        if target.name == "vllm-0":
            raise KeyError("a fault of ours")
        return steady(target, now)

    bench.engines._answer = answer
    look = bench.collector.collect([target("vllm-0"), target("vllm-1")], ())
    assert [engine.state for engine in look.reading.engines] == [EngineState.FAILED, EngineState.READY]
    assert "a fault of ours" in look.reading.engines[0].problems[0]


def test_a_gpu_reader_that_hangs_says_so_and_the_engines_are_read() -> None:
    class Hanging(FakeGpus):
        def read(self, now: datetime) -> GpuSurvey:
            engines.let_go.wait(10.0)
            return super().read(now)

    engines = FakeEngines(steady)
    pace = Pace(scrape_timeout=timedelta(seconds=0.1), nvml_timeout=timedelta(seconds=0.1))
    collector = Collector(HostName("gpu-1"), Hanging(), engines, SystemClock(), pace)
    look = collector.collect([target("vllm-0")], ())
    engines.let_go.set()
    assert (look.reading.gpus.up, look.reading.engines[0].state) == (False, EngineState.READY)
    assert "did not answer" in look.reading.gpus.why
    collector.close()


def test_readings_are_kept_for_the_window_and_an_engine_that_left_is_forgotten(bench: Bench) -> None:
    for _ in range(20):
        look = bench.collector.collect([target("vllm-0"), target("vllm-1")], ())
        bench.clock.pass_by(INTERVAL)
    assert len(look.histories[ONE]) == 6, "60 s and an interval"
    look = bench.collector.collect([target("vllm-1")], ())
    assert set(look.histories) == {TWO}


def test_the_snapshot_takes_rates_over_the_window(bench: Bench) -> None:
    for _ in range(8):
        look = bench.collector.collect([target("vllm-0")], ())
        bench.clock.pass_by(INTERVAL)
    shown = snapshot(look, PACE.window, Around(collections=8))
    assert shown.figures[ONE][Figure.GENERATION_TOKENS_PER_SECOND] == pytest.approx(10.0)
    assert shown.windows[ONE].seconds == pytest.approx(60.0)
    assert shown.engines[ONE].pool == "base"
    assert shown.last_success[ONE] == look.reading.engines[0].at


def test_an_unreachable_engine_of_ours_is_starting_and_anybody_elses_is_not(bench: Bench) -> None:
    bench.engines._answer = lambda target, now: reading(target.name, now, state=EngineState.UNREACHABLE)
    look = bench.collector.collect([target("vllm-0"), target("vllm-1")], {ONE})
    assert [engine.state for engine in look.reading.engines] == [EngineState.STARTING, EngineState.UNREACHABLE]


def test_a_frozen_engine_is_stalled_and_its_gauges_are_stale(bench: Bench) -> None:
    """A stopped engine core answers 200 with standing gauges."""
    bench.engines._answer = lambda target, now: reading(target.name, now, running=3.0, tokens=70.0)
    states = []
    for _ in range(5):
        look = bench.collector.collect([target("vllm-0")], ())
        states.append(look.reading.engines[0].state)
        bench.clock.pass_by(INTERVAL)
    assert states == [EngineState.READY] * 3 + [EngineState.STALLED] * 2
    assert snapshot(look, PACE.window, Around()).figures[ONE][Figure.RUNNING] == Missing(Gap.STALE)


def moments(*seconds: float, running: float = 1.0, tokens: float = 5.0) -> list[EngineReading]:
    return [reading("e", NOON + timedelta(seconds=at), running, tokens) for at in seconds]


def test_an_idle_engine_is_never_stalled() -> None:
    assert not stalled(moments(0, 60, 600, running=0.0), INTERVAL)


def test_an_engine_is_stalled_only_after_the_whole_bound() -> None:
    bound = timedelta(seconds=45)
    assert not stalled(moments(0, 15, 30), bound)
    assert stalled(moments(0, 15, 30, 45), bound)


def test_one_moving_counter_ends_a_stall() -> None:
    bound = timedelta(seconds=45)
    moved = [*moments(0, 15, 30, 45), *moments(60, tokens=6.0)]
    assert told(moved, bound, starting=False).state is EngineState.READY
    assert stalled([*moved, *moments(75, 90, 105, tokens=6.0)], bound)


def test_the_stall_bound_is_three_intervals_and_at_least_ten_seconds() -> None:
    assert stall_after(timedelta(seconds=1)) == timedelta(seconds=10)
    assert stall_after(timedelta(seconds=15)) == timedelta(seconds=45)


def test_a_window_begins_at_the_reading_before_it() -> None:
    for keep in (15, 20):
        kept = trimmed(moments(0, 10, 20, 30), NOON + timedelta(seconds=30), timedelta(seconds=keep))
        assert [(one.at - NOON).total_seconds() for one in kept] == [10.0, 20.0, 30.0]


def test_a_report_reads_back_as_the_host_was_seen(bench: Bench) -> None:
    look = bench.collector.collect([target("vllm-0")], ())
    report, described = pack(look.reading, "boot", 7)
    keys = [SeriesKey(*row) for row in described.series]
    back = unflatten(HostName("gpu-1"), look.reading.at, keys, decode(report.values))
    assert back.engines[0].gauges == look.reading.engines[0].gauges
    assert back.engines[0].counters == look.reading.engines[0].counters
    assert back.gpus.gpus[0].utilization == 0.5
    assert uncarried(look.reading, described) == 0


def test_a_series_that_the_wire_cannot_carry_is_left_out_and_counted(bench: Bench) -> None:
    ranks = [Rank("0"), Rank("9" * 300), Rank("a\x00b")]
    odd = EngineReading(ONE, None, EngineState.READY, NOON, counters={(Counter.STEPS, rank): 1.0 for rank in ranks})
    host = HostReading(HostName("gpu-1"), NOON, GpuSurvey(up=False, why="", at=NOON), (odd,))
    report, described = pack(host, "boot", 1)
    assert uncarried(host, described) == 2
    assert len(decode(report.values)) == len(described.series)


def test_the_host_state_carries_no_control_characters(bench: Bench) -> None:
    def answer(target: EngineTarget, now: datetime) -> EngineReading:
        return EngineReading(target.name, None, EngineState.MALFORMED, now, model="a\x00b", problems=("bad\nline\x00",))

    bench.engines._answer = answer
    look = bench.collector.collect([target("vllm-0")], ())
    state = host_state(look, [], (1, 2), SpoolState(reports=3, dropped=4))
    assert state.engines[0].model == "a b"
    assert state.engines[0].problems == ["bad line "]
    assert (state.desired_epoch, state.desired_revision, state.spool_reports, state.spool_dropped) == (1, 2, 3, 4)
    assert layout().series
