"""One suite for both sources of metrics: the agents' reports in Postgres, and a real Prometheus that scraped them.

What a tick sees, what usage and cost come to and when an alert fires are the same, wherever the samples were kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import BASE, BURST, batch, fleet_policy
from fakes.prometheus_blocks import LoadedPrometheus
from fakes.source_story import (
    BEGIN,
    G1,
    G2,
    G3,
    GENERATED,
    LOOKED_UP,
    NOON,
    PROMPT,
    RESTART,
    SILENT_FROM,
    STEP,
    WORSE_FROM,
    looks,
    reported,
    samples,
    states,
)

from tidegate.alert.evaluate import evaluate
from tidegate.config.settings import ControllerSettings, Settings
from tidegate.controller.cost_activity import Telemetry
from tidegate.controller.cost_ledger import CostLedger
from tidegate.controller.costs import Costs
from tidegate.controller.counts import Counts
from tidegate.controller.figures import PoolReport, pool_reports
from tidegate.controller.gather import Gathered, gather
from tidegate.controller.head import Head
from tidegate.controller.hearing import Hearing
from tidegate.controller.hostview import Freshness
from tidegate.controller.intake import Intake
from tidegate.controller.observer import Observer
from tidegate.controller.past_ports import Histories
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.controller.wiring_source import MetricSource, metric_source
from tidegate.controller.wishes import Wishes
from tidegate.model.alert import AlertPhase
from tidegate.model.fleet import PoolName, SignalName, Value
from tidegate.model.history import METRICS, Aggregate, Label, LimitError, Limits, Question
from tidegate.model.overview import Overview
from tidegate.model.policy import HitRateRule
from tidegate.model.reading import Gap, HostName, Missing
from tidegate.model.records import Compacted
from tidegate.model.scrape import PrometheusPlace, Source
from tidegate.model.usage import BUCKET, TokenUsage
from tidegate.runtime.errors import Transient
from tidegate.store.database import open_database
from tidegate.store.store import Store

MINUTE = timedelta(minutes=1)
NOW = NOON + timedelta(seconds=6)
RULE = HitRateRule(baseline=timedelta(hours=1), minimum_queries=1000.0, hold=timedelta())
SOURCES = pytest.mark.parametrize("kind", list(Source))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedPrometheus]:
    """One Prometheus that scraped the whole story."""
    with LoadedPrometheus(tmp_path_factory.mktemp("source") / "prometheus", samples()) as running:
        yield running


@dataclass
class Fleet:
    """A controller's reading half over one of the sources."""

    store: Store
    source: MetricSource
    state: State
    settings: Settings
    observer: Observer

    def gathered(self, now: datetime = NOW) -> Gathered:
        freshness = Freshness(MINUTE, MINUTE)
        found = gather(self.observer.sources(freshness, now), self.settings.fleet, freshness, now)
        self.store.replicas.observe(found.changed)
        return found

    def pools(self, now: datetime = NOW) -> dict[PoolName, PoolReport]:
        found = self.gathered(now)
        reports = pool_reports(found, (), self.settings.fleet, {}, now)
        return {report.figures.pool: report for report in reports}

    @cached_property
    def past(self) -> Histories:
        """The history, after what the store makes of reports; a Prometheus has its own."""
        while self.store.compaction.compact(NOON + timedelta(hours=3)) != Compacted():
            pass
        return self.source.histories

    def rolled_up(self, now: datetime = NOW) -> Sequence[TokenUsage]:
        for _ in range(4):
            self.source.usage.roll_up(now)
        return self.source.usage.between(BEGIN - BUCKET, now + BUCKET)


def _settings(kind: Source, url: str) -> Settings:
    return Settings(
        Path("tidegate.toml"),
        fleet_policy(),
        controller=ControllerSettings(source=kind),
        prometheus=PrometheusPlace(url, timeout=timedelta(seconds=20)),
        alerts=(RULE,),
    )


@pytest.fixture
def fleet(kind: Source, dsn: str, prometheus: LoadedPrometheus) -> Iterator[Fleet]:
    """Three hosts that have told their whole story, to the controller and to Prometheus."""
    database = open_database(dsn)
    store, settings = Store(database), _settings(kind, prometheus.url)
    current = RunningConfig(settings, lambda: settings, NOW)
    state, head = State(Overview("1.0", BEGIN), current, Counts()), Head(timedelta(minutes=2))
    source = metric_source(current, store, store.usage, state, head)
    hearing = Hearing(source.reports, store.hosts, head, state)
    intake = Intake(source.reports, Wishes(store.replicas, lambda _hosts: None, lambda: 0), hearing, head.span)
    for host in states():
        store.hosts.enroll(host, f"token of {host}", BEGIN)
        intake.take(host, reported(host), ManualClock(NOW))
    observer = Observer(
        recent=source.recent,
        hosts=store.hosts,
        replicas=store.replicas,
        decisions=store.decisions,
        follow=lambda *_: None,
        began_at=lambda: BEGIN,
        commands=store.commands,
        silent=source.silent,
    )
    if source.poll is not None:
        source.poll(NOW)
    yield Fleet(store, source, state, settings, observer)
    database.close()


def signals(found: Gathered, host: HostName) -> dict[SignalName, object]:
    (replica,) = (one for pool in found.fleet.pools.values() for one in pool.replicas if one.host == host)
    return dict(replica.signals)


@SOURCES
def test_a_tick_sees_what_the_engines_do_now(fleet: Fleet) -> None:
    seen = signals(fleet.gathered(), G1)
    age = NOW - NOON
    assert seen[SignalName.RUNNING] == Value(4.0, age)
    assert seen[SignalName.WAITING] == Value(2.0, age)
    assert seen[SignalName.KV_CACHE_USAGE] == Value(0.25, age)
    assert seen[SignalName.GPU_UTILIZATION] == Value(0.5, age)


@SOURCES
def test_ranks_add_up(fleet: Fleet) -> None:
    assert signals(fleet.gathered(), G2)[SignalName.RUNNING] == Value(4.0, NOW - NOON)


@SOURCES
def test_a_host_of_which_nothing_comes_is_missing_and_never_idle(fleet: Fleet, kind: Source) -> None:
    seen = signals(fleet.gathered(), G3)
    why = Gap.UNREACHABLE if kind is Source.PROMETHEUS else Gap.NOT_REPORTED
    assert set(seen.values()) == {Missing(why)}


@SOURCES
def test_a_pools_figures_are_the_same(fleet: Fleet) -> None:
    found = fleet.pools()[BASE].figures
    per_second = 1 / STEP.total_seconds()
    assert (found.running, found.queue_depth) == (4.0, 2.0)
    assert found.prompt_tokens_per_second == pytest.approx(PROMPT * per_second)
    assert found.generation_tokens_per_second == pytest.approx(GENERATED * per_second)
    assert found.kv_cache_hit_rate == pytest.approx(0.1)
    assert found.gpu_utilization == pytest.approx(0.5)
    assert found.ttft_p95_seconds == pytest.approx(0.1 + 0.9 * (9.5 - 6) / 4)


@SOURCES
def test_a_pool_of_which_one_replica_is_silent_says_so(fleet: Fleet) -> None:
    found = fleet.pools()[BURST]
    assert found.figures.running == 4.0
    assert "1 of 2 replicas missing" in found.gaps["running"]


@SOURCES
def test_usage_adds_up_to_the_counters_in_buckets(fleet: Fleet) -> None:
    base = [usage for usage in fleet.rolled_up() if usage.pool == BASE]
    steps = (NOON - BEGIN) // STEP
    assert sum(usage.prompt_tokens for usage in base) == PROMPT * steps
    assert sum(usage.generation_tokens for usage in base) == GENERATED * steps
    assert sum(usage.cache_queries for usage in base) == LOOKED_UP * steps
    assert {usage.generation_tokens for usage in base[1:-1]} == {GENERATED * (BUCKET // STEP)}
    worse = sum(usage.cache_hits for usage in base if usage.bucket >= WORSE_FROM + BUCKET)
    assert worse == 100.0 * ((NOON - WORSE_FROM - BUCKET) // STEP + 1)
    assert not any(usage.partial for usage in base)


@SOURCES
def test_a_restart_is_counted_from_zero_and_said(fleet: Fleet) -> None:
    """One step between the last sample before it and the first after it was seen by nobody."""
    burst = [usage for usage in fleet.rolled_up() if usage.pool == BURST and usage.bucket == RESTART]
    (bucket,) = burst
    other = GENERATED * (BUCKET // STEP)  # gpu-3, whose engine ran on
    assert bucket.generation_tokens == other + GENERATED * (BUCKET // STEP)
    assert bucket.partial


@SOURCES
def test_a_host_that_fell_silent_leaves_its_last_bucket_open_and_then_partial(fleet: Fleet) -> None:
    late = fleet.rolled_up(NOON + 10 * MINUTE)
    (last,) = (usage for usage in late if usage.pool == BURST and usage.bucket == NOON - BUCKET)
    both = (BUCKET // STEP) + (SILENT_FROM - (NOON - BUCKET)) // STEP + 1
    assert (last.generation_tokens, last.partial) == (GENERATED * both, True)


@SOURCES
def test_rolling_up_again_changes_nothing(fleet: Fleet) -> None:
    once = fleet.rolled_up()
    assert fleet.rolled_up() == once


@SOURCES
def test_a_million_tokens_cost_the_same(fleet: Fleet) -> None:
    fleet.gathered(BEGIN)
    fleet.rolled_up()
    telemetry = Telemetry(fleet.source.usage, fleet.store.replicas, fleet.source.histories)
    running = RunningConfig(fleet.settings, lambda: fleet.settings, NOW)
    ledger = CostLedger(ManualClock(NOW), running, telemetry, fleet.store.bills, fleet.store.costs)
    found = Costs(ledger).between(NOON - timedelta(hours=1), NOON, fleet.settings.fleet)
    tokens = {line.pool: line.tokens for line in found.pools}
    per_bucket = (PROMPT + GENERATED) * (BUCKET // STEP)
    assert tokens[BASE] == 12 * per_bucket
    assert found.total.gpu_hours > Decimal(0) or found.total.amount is None


@SOURCES
def test_the_alert_fires_on_the_same_drop(fleet: Fleet) -> None:
    usages = [usage for usage in fleet.rolled_up() if usage.bucket < NOON]
    after, _ = evaluate((RULE,), usages, (), NOON)
    assert {state.labels["pool"]: state.phase for state in after}[BASE] is AlertPhase.FIRING
    assert BURST not in {state.labels["pool"] for state in after if state.phase is AlertPhase.FIRING}


def asked(name: str, since: datetime, aggregate: Aggregate, step: timedelta | None = BUCKET, **more: Any) -> Question:
    return Question(METRICS[name], since, NOON, step, aggregate, **more)


@SOURCES
def test_a_gauges_history_is_its_average_in_each_step_added_up_over_a_pool(fleet: Fleet) -> None:
    found = fleet.past.query(asked("running", NOON - 6 * BUCKET, Aggregate.AVG, by=(Label.POOL,)))
    base, burst = found.lines
    assert list(base.at) == [(NOON - place * BUCKET).timestamp() for place in range(6, 0, -1)]
    assert (dict(base.labels), list(base.values)) == ({Label.POOL: BASE}, [4.0] * 6)
    assert (dict(burst.labels), list(burst.values)) == ({Label.POOL: BURST}, [8.0] * 6)


@SOURCES
def test_a_counters_increases_add_up_and_belong_to_the_later_samples_step(fleet: Fleet) -> None:
    where = {Label.HOST: frozenset([G1])}
    question = asked("generation_tokens", NOON - 6 * BUCKET, Aggregate.INCREASE, where=where)
    (line,) = fleet.past.query(question).lines
    assert list(line.values) == [GENERATED * (BUCKET // STEP)] * 6
    (rates,) = fleet.past.query(replace(question, aggregate=Aggregate.RATE)).lines
    assert list(rates.values) == [pytest.approx(GENERATED / STEP.total_seconds())] * 6


@SOURCES
def test_a_restart_makes_no_increase_negative(fleet: Fleet, kind: Source) -> None:
    where = {Label.HOST: frozenset([G2])}
    question = asked("generation_tokens", RESTART - BUCKET, Aggregate.INCREASE, where=where, by=(Label.HOST,))
    (line,) = fleet.past.query(question).lines
    whole = GENERATED * (BUCKET // STEP)
    # Of a sum over ranks nobody knows what was added since one fell; per rank it is known.
    lost = GENERATED if kind is Source.PROMETHEUS else 0.0
    assert list(line.values)[:3] == [whole, whole - lost, whole]


@SOURCES
def test_a_quantiles_history_is_that_of_summed_buckets(fleet: Fleet) -> None:
    where = {Label.HOST: frozenset([G1])}
    found = fleet.past.query(asked("ttft", NOON - 3 * BUCKET, Aggregate.P95, where=where, by=()))
    (line,) = found.lines
    assert list(line.values) == [pytest.approx(0.1 + 0.9 * (9.5 - 6) / 4)] * 3


@SOURCES
def test_where_nothing_came_the_history_is_missing(fleet: Fleet) -> None:
    where = {Label.HOST: frozenset([G3])}
    found = fleet.past.query(asked("queue_depth", SILENT_FROM - 2 * MINUTE, Aggregate.MAX, MINUTE, where=where))
    (line,) = found.lines
    assert list(line.values) == [2.0, 2.0, 2.0, None]


@SOURCES
def test_samples_come_as_they_were_taken_without_a_step(fleet: Fleet) -> None:
    where = {Label.HOST: frozenset([G1])}
    (line,) = fleet.past.query(asked("kv_cache_usage", NOON - MINUTE, Aggregate.AVG, None, where=where)).lines
    assert list(line.values) == [0.25] * 4
    assert line.at[0] == pytest.approx((NOON - MINUTE).timestamp(), abs=5.0)


@SOURCES
def test_labels_of_a_metric_are_listed(fleet: Fleet) -> None:
    metric = METRICS["running"]
    assert list(fleet.past.labels(metric, Label.HOST, BEGIN, NOON)) == [G1, G2, G3]
    assert list(fleet.past.labels(metric, Label.ENGINE, BEGIN, NOON)) == ["vllm-a", "vllm-b", "vllm-c"]


@SOURCES
def test_a_question_without_sense_and_one_too_large_are_refused(fleet: Fleet) -> None:
    with pytest.raises(ValueError, match="is a gauge"):
        fleet.past.query(asked("running", BEGIN, Aggregate.INCREASE))
    with pytest.raises(LimitError):
        fleet.past.query(asked("ttft_bucket", BEGIN, Aggregate.INCREASE), Limits(series=1))


@pytest.mark.parametrize("kind", [Source.PROMETHEUS])
def test_reported_samples_are_acknowledged_and_not_kept(fleet: Fleet) -> None:
    clock = ManualClock(NOW)
    head = Head(timedelta(minutes=2))
    hearing = Hearing(fleet.source.reports, fleet.store.hosts, head, fleet.state)
    wishes = Wishes(fleet.store.replicas, lambda _hosts: None, lambda: 0)
    intake = Intake(fleet.source.reports, wishes, hearing, head.span)
    answer = intake.take(G1, batch(G1, looks(G1)[-3:], states()[G1], first=500), clock)
    assert [(one.first, one.last) for one in answer.acknowledged] == [(500, 500), (501, 501), (502, 502)]
    assert answer.desired is not None
    assert (answer.need_layouts, len(head), fleet.store.reports.count(G1)) == ([], 0, 0)
    assert fleet.state.counts.tally().reports["left_out"] >= 3


@pytest.mark.parametrize("kind", [Source.PROMETHEUS])
def test_a_prometheus_that_goes_away_looks_like_nothing_known_and_comes_back(
    fleet: Fleet, prometheus: LoadedPrometheus
) -> None:
    assert fleet.source.poll is not None
    fleet.gathered()
    prometheus.stop()
    try:
        with pytest.raises(Transient, match="cannot be reached"):
            fleet.source.poll(NOW + STEP)
        later = NOW + 2 * MINUTE
        assert set(signals(fleet.gathered(later), G1).values()) == {Missing(Gap.STALE)}
        told = fleet.state.overview()
        assert "no samples from Prometheus" in told.notes[0]
        assert told.source is not None
        assert told.source.hosts is None
        with pytest.raises(Transient):
            fleet.source.usage.roll_up(later)
    finally:
        prometheus.start()
    fleet.source.poll(NOW)
    assert isinstance(signals(fleet.gathered(), G1)[SignalName.RUNNING], Value)
    assert not any("no samples from" in note for note in fleet.state.overview().notes)


@pytest.mark.parametrize("kind", [Source.PROMETHEUS])
def test_matchers_that_fit_nothing_are_said(fleet: Fleet) -> None:
    source = metric_source(
        RunningConfig(
            replace(fleet.settings, prometheus=replace(fleet.settings.prometheus, matchers=(("cluster", "x"),))),
            lambda: fleet.settings,
            NOW,
        ),
        fleet.store,
        fleet.store.usage,
        fleet.state,
        Head(MINUTE),
    )
    assert source.poll is not None
    source.poll(NOW)
    assert source.recent.since(BEGIN, NOW) == {}
    assert any("no samples of any agent" in note for note in fleet.state.overview().notes)
