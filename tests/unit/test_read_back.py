"""The agent's page read backwards: what was exported comes back as it was, and nothing that was not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.agent_snapshot import NOON, busy_host, good_engine
from fakes.scrapes import TARGET, scraped
from hypothesis import given
from hypothesis import strategies as st

from tidegate.expose.read_back import read_back, silent_hosts
from tidegate.expose.selectors import selector, tick_selectors, usage_selector
from tidegate.model.figures import figures
from tidegate.model.gpu import GpuFigure
from tidegate.model.reading import (
    Counter,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuReading,
    Histogram,
    HostName,
    HostReading,
    Missing,
    Rank,
)
from tidegate.model.scrape import SampleSeries, Scraped
from tidegate.model.snapshot import AgentSnapshot
from tidegate.model.window import gauge

HOST = HostName("gpu-7")
ZERO = Rank("0")


def shown(snapshot: AgentSnapshot | None = None) -> AgentSnapshot:
    """A snapshot whose collection began at noon."""
    made = snapshot or busy_host()
    return replace(made, collected_at=made.reading.at + timedelta(seconds=made.collect_seconds))


def only(found: Scraped) -> HostReading:
    (reading,) = found.readings[HOST]
    return reading


def engine(reading: HostReading, name: str) -> EngineReading:
    return next(engine for engine in reading.engines if engine.engine == name)


@pytest.fixture
def back() -> HostReading:
    return only(read_back(scraped([(1.0, shown())])))


def test_a_reading_comes_back_with_its_host_and_its_moment(back: HostReading) -> None:
    assert (back.host, back.at, back.gpus.up) == (HOST, NOON, True)
    assert {engine.engine for engine in back.engines} == {"vllm-a", "vllm-b", "burst-3", "router"}


def test_counters_and_histograms_are_the_sums_over_the_ranks(back: HostReading) -> None:
    told, found = good_engine(NOON, 7000.0), engine(back, "vllm-a")
    sums: dict[Counter, float] = {}
    for (counter, _), total in told.counters.items():
        sums[counter] = sums.get(counter, 0.0) + total
    assert found.counters == {(counter, Rank("sum of 2")): total for counter, total in sums.items()}
    assert found.summed
    ((_, ttft), *_) = sorted((key, h) for key, h in found.histograms.items() if key[0] == "ttft")
    assert isinstance(ttft, Histogram)
    assert (ttft.bounds, ttft.counts, ttft.count) == ((0.1, 1.0, math.inf), (70.0, 140.0, 140.0), 140.0)


def test_gauges_are_what_a_pool_adds_up(back: HostReading) -> None:
    told, found = good_engine(NOON, 7000.0), engine(back, "vllm-a")
    for name in (Gauge.RUNNING, Gauge.QUEUE_DEPTH, Gauge.KV_CACHE_USAGE, Gauge.SLEEP_LEVEL, Gauge.GRAMMAR_QUEUE):
        assert gauge(found, name) == gauge(told, name)


def test_what_an_engine_is_comes_back(back: HostReading) -> None:
    told, found = good_engine(NOON, 7000.0), engine(back, "vllm-a")
    assert (found.kind, found.state, found.started) == (told.kind, told.state, told.started)
    assert (found.gpus, found.kv_usage_basis) == (2, told.kv_usage_basis)


def test_states_come_back(back: HostReading) -> None:
    assert engine(back, "vllm-b").state is EngineState.UNREACHABLE
    assert engine(back, "burst-3").state is EngineState.STARTING
    assert not engine(back, "vllm-b").counters


def test_workers_of_a_gateway_come_back(back: HostReading) -> None:
    worker = Rank("http://127.0.0.1:8000")
    router = engine(back, "router")
    assert router.gauges[Gauge.WORKER_UP, worker] == 1.0
    assert router.counters[Counter.WORKER_REQUESTS, worker] == 3.0


def test_gpus_come_back(back: HostReading) -> None:
    full, lost, plain = sorted(back.gpus.gpus, key=lambda gpu: gpu.index)
    told = busy_host().reading.gpus.gpus
    expected = {figure: value for figure, value in told[0].figures.items() if figure is not GpuFigure.CLOCK_EVENTS}
    assert full.figures == expected
    assert _instances(full) == {2: told[0].instances[0].figures}
    assert (lost.up, lost.figures) == (False, {})
    assert plain.figures[GpuFigure.ENERGY] == Missing(Gap.NOT_SUPPORTED)


def _instances(gpu: GpuReading) -> Mapping[int, object]:
    return {instance.number: instance.figures for instance in gpu.instances}


def test_the_machine_comes_back_but_for_what_is_missing_of_no_known_device(back: HostReading) -> None:
    told = busy_host().reading.machine.figures
    assert back.machine.figures == {key: value for key, value in told.items() if not isinstance(value, Missing)}


def test_a_figure_that_is_missing_says_why() -> None:
    """A frozen engine's gauges are no values: the agent says `stale`, and so does what is read back."""
    before, after = good_engine(NOON - timedelta(minutes=1), 1000.0), good_engine(NOON, 1000.0)
    told = busy_host()
    known = {**told.figures, after.engine: figures((before, after))}
    reading = replace(told.reading, engines=(after,))
    found = only(read_back(scraped([(1.0, shown(replace(told, reading=reading, figures=known)))])))
    assert gauge(engine(found, "vllm-a"), Gauge.RUNNING) == Missing(Gap.STALE)


@pytest.mark.parametrize("honor_labels", [False, True])
def test_labels_that_a_target_has_too_are_told_apart(honor_labels: bool) -> None:
    """Kubernetes gives every target a `service`, many a `host` and a `pool`."""
    target = {**TARGET, "service": "tidegate-agent", "host": "node-17", "pool": "gpu-nodes", "engine": "x"}
    series = scraped([(1.0, shown())], target, honor_labels=honor_labels)
    assert only(read_back(series)) == only(read_back(scraped([(1.0, shown())])))


def test_two_prometheus_that_scrape_one_agent_count_once() -> None:
    once, again = ({**TARGET, "prometheus_replica": name} for name in ("a", "b"))
    found = read_back([*scraped([(1.0, shown())], once), *scraped([(3.5, shown())], again)])
    assert len(found.readings[HOST]) == 1
    assert not found.dropped


def test_a_scrape_that_lost_a_part_gives_way_to_one_that_is_whole() -> None:
    whole = scraped([(1.0, shown())], {**TARGET, "prometheus_replica": "a"})
    partial = [s for s in scraped([(2.0, shown())], {**TARGET, "prometheus_replica": "b"}) if "ttft" not in str(s)]
    for series in ([*whole, *partial], [*partial, *whole]):
        assert only(read_back(series)) == only(read_back(whole))


def test_an_agent_that_stopped_to_collect_gives_no_reading() -> None:
    """Its page still says when it last looked; the figures are gone from it."""
    series = [s for s in scraped([(1.0, shown())]) if s.labels["__name__"] != "tidegate_nvml_up"]
    assert not read_back(series).readings


def test_an_agent_that_does_not_say_who_it_is_is_named() -> None:
    series = [s for s in scraped([(1.0, shown())]) if s.labels["__name__"] != "tidegate_agent_info"]
    found = read_back(series)
    assert (found.readings, found.nameless) == ({}, ("10.0.0.7:9091",))
    labelled = [SampleSeries({**s.labels, "node": "gpu-7"}, s.points) for s in series]
    assert list(read_back(labelled, host_label="node").readings) == [HOST]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_missing_and_counted(value: float) -> None:
    series = scraped([(1.0, shown())])
    names = {"tidegate_running_requests", "tidegate_generation_tokens_total"}
    bent = [SampleSeries(s.labels, [(1.0, value), (9.0, 1.0)]) if s.labels["__name__"] in names else s for s in series]
    found = read_back(bent)
    assert gauge(engine(only(found), "vllm-a"), Gauge.RUNNING) == Missing(Gap.NOT_FINITE)
    assert Counter.GENERATION_TOKENS not in {counter for counter, _ in engine(only(found), "vllm-a").counters}
    assert found.dropped == {"not_finite": 2}


def test_the_mark_of_a_series_that_ended_is_no_value_of_it() -> None:
    """VictoriaMetrics hands out a NaN where a target went down: of every series, and no agent had said so."""
    ended = [SampleSeries(s.labels, [*s.points, (16.0, math.nan)]) for s in scraped([(1.0, shown())])]
    found = read_back(ended)
    assert only(found) == only(read_back(scraped([(1.0, shown())])))
    assert not found.dropped


def test_series_that_contradict_each_other_are_no_value() -> None:
    """Relabelling dropped what told them apart: two engines of one name."""
    series = scraped([(1.0, shown())])
    running = next(s for s in series if s.labels["__name__"] == "tidegate_running_requests")
    found = read_back([*series, SampleSeries({**running.labels, "pool": "other"}, [(1.0, 3.0)])])
    assert gauge(engine(only(found), "vllm-a"), Gauge.RUNNING) == Missing(Gap.MALFORMED)
    assert found.dropped == {"conflicting": 1}


def test_nothing_at_all_is_no_reading() -> None:
    found = read_back([])
    assert (found.readings, found.dropped, found.nameless) == ({}, {}, ())


@given(st.lists(st.tuples(st.sampled_from([s.labels for s in scraped([(1.0, shown())])]), st.floats()), max_size=60))
def test_any_samples_are_read_without_an_error(samples: list[tuple[dict[str, str], float]]) -> None:
    read_back([SampleSeries(labels, [(1.0, value)]) for labels, value in samples])


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.floats())
def test_any_labels_are_read_without_an_error(labels: dict[str, str], value: float) -> None:
    names = {s.labels["__name__"] for s in scraped([(1.0, shown())])}
    read_back([SampleSeries({**labels, "__name__": name}, [(1.0, value)]) for name in names])


def test_a_host_is_silent_when_none_of_its_targets_answers() -> None:
    def info(instance: str, host: str) -> SampleSeries:
        return SampleSeries({"job": "t", "instance": instance, "host": host}, [(1.0, 1.0)])

    def up(instance: str, value: float, replica: str = "a") -> SampleSeries:
        return SampleSeries({"job": "t", "instance": instance, "prometheus": replica}, [(1.0, value)])

    agents = [info("a:9091", "a"), info("b:9091", "b"), info("c:9091", "c")]
    ups = [up("a:9091", 0.0), up("b:9091", 0.0), up("b:9091", 1.0, "b")]
    assert silent_hosts(agents, ups, "") == {"a": Gap.UNREACHABLE}


def test_selectors_quote_what_an_operator_writes() -> None:
    assert selector(["up"], [("cluster", 'a"b\\')]) == '{__name__="up",cluster="a\\"b\\\\"}'
    assert len(tick_selectors([])) == 5
    assert max(map(len, (*tick_selectors([]), usage_selector([])))) < 4000
