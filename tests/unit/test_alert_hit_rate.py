"""The hit-rate alert: what fires, what resolves, what is said once, what is never said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.alert.evaluate import end_orphans, evaluate, orphans, reach_of
from tidegate.alert.machine import Subject
from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.fleet import PoolName
from tidegate.model.policy import HitRateRule
from tidegate.model.usage import BUCKET, TokenUsage

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BASE = PoolName("base")
RULE = HitRateRule(channels=("ops", "log", "ops"))


class Watch:
    """Evaluates minute by minute and keeps what was said."""

    def __init__(self, rule: HitRateRule = RULE) -> None:
        self.rule = rule
        self.usages: list[TokenUsage] = []
        self.states: tuple[AlertState, ...] = ()
        self.said: list[Notice] = []
        self.now = NOON

    def pass_bucket(self, rate: float, queries: float = 20_000.0) -> None:
        """Five minutes at this hit rate, one evaluation a minute; no row at all without queries."""
        if queries:
            self.usages.append(bucket(self.now, rate * queries, queries))
        for _ in range(5):
            self.now += MINUTE
            self.states, notices = evaluate([self.rule], self.usages, self.states, self.now)
            self.said += notices

    def pass_buckets(self, count: int, rate: float, queries: float = 20_000.0) -> None:
        """Several of them."""
        for _ in range(count):
            self.pass_bucket(rate, queries)

    @property
    def phases(self) -> list[str]:
        """What channel "ops" heard."""
        return [notice.alert.phase.value for notice in self.said if notice.channel == "ops"]

    @property
    def state(self) -> AlertState:
        """The one state."""
        (found,) = self.states
        return found


def bucket(at: datetime, hits: float, queries: float, pool: PoolName = BASE) -> TokenUsage:
    """A bucket of lookups."""
    return TokenUsage(pool, at, queries, hits, 0.0, queries, hits, partial=False)


def test_a_drop_fires_after_its_hold_and_resolves_once() -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    assert watch.states == ()

    watch.pass_buckets(2, rate=0.1)  # the window holds 0.6 0.1 0.1: 27 % is below 42 %
    assert watch.state.phase is AlertPhase.PENDING
    watch.pass_buckets(2, rate=0.1)
    assert watch.state.phase is AlertPhase.FIRING
    assert watch.state.starts_at == NOON + 26 * BUCKET + 5 * MINUTE
    assert watch.state.baseline == pytest.approx(0.59, abs=0.02)
    watch.pass_buckets(30, rate=0.1)
    watch.pass_buckets(8, rate=0.6)

    assert watch.phases == ["firing", "resolved"]
    assert [notice.channel for notice in watch.said] == ["ops", "log", "ops", "log"]
    assert len({notice.id for notice in watch.said}) == 4
    assert watch.state.phase is AlertPhase.RESOLVED
    assert watch.state.ends_at == NOON + 61 * BUCKET  # 0.1 0.6 0.6 is 43 %, 0.6 0.6 0.6 is back


def test_the_words_carry_the_numbers_in_both_languages() -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(5, rate=0.1)
    watch.pass_buckets(5, rate=0.6)

    fired, resolved = (notice.alert for notice in watch.said if notice.channel == "ops")

    assert fired.labels == {"alertname": "kv_cache_hit_rate_drop", "pool": "base"}
    assert fired.annotations == {
        "summary": "KV cache hit rate of pool base is 10.0% over the last 15 min, down from its baseline of 60.0% "
        "over the 24 h before.",
        "summary_zh": "资源池 base 最近 15 分钟的 KV 缓存命中率为 10.0%，低于此前 24 小时的基线 60.0%。",
    }
    assert resolved.annotations["summary"].startswith("KV cache hit rate of pool base has recovered: 60.0% over")
    assert resolved.annotations["summary_zh"].startswith("资源池 base 的 KV 缓存命中率已恢复：最近 15 分钟为 60.0%")


def test_a_short_dip_is_never_said_and_so_never_resolved() -> None:
    watch = Watch(replace(RULE, hold=20 * MINUTE))
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(2, rate=0.1)
    watch.pass_buckets(9, rate=0.6)

    assert watch.said == []
    assert watch.state.phase is AlertPhase.INACTIVE


def test_without_a_hold_the_first_bad_window_fires() -> None:
    watch = Watch(replace(RULE, hold=timedelta()))
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(2, rate=0.1)

    assert watch.phases == ["firing"]


def test_between_the_two_lines_nothing_changes() -> None:
    """Hysteresis: a rate that hangs about the line neither flaps nor resolves."""
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(6, rate=0.1)
    for rate in (0.45, 0.40, 0.47, 0.41, 0.48) * 4:
        watch.pass_bucket(rate)

    assert watch.phases == ["firing"]
    assert watch.state.phase is AlertPhase.FIRING


def test_without_traffic_nothing_is_said() -> None:
    """No traffic neither fires nor resolves, whether rows are missing or small."""
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(6, rate=0.0, queries=3_000)
    assert watch.states == ()
    watch.pass_buckets(6, rate=0.1)
    assert watch.phases == ["firing"]
    watch.pass_buckets(6, rate=1.0, queries=0)
    watch.pass_buckets(20, rate=1.0, queries=3_000)
    assert watch.phases == ["firing"]
    watch.pass_buckets(3, rate=0.6)
    assert watch.phases == ["firing", "resolved"]


def test_an_alert_of_a_pool_that_has_nothing_to_judge_for_an_hour_ends_and_says_so() -> None:
    """The pool is closed, or renamed, or its traffic went elsewhere: nobody should look at this alert for ever."""
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(6, rate=0.1)
    watch.pass_buckets(10, rate=1.0, queries=0)
    assert watch.phases == ["firing"]
    watch.pass_buckets(3, rate=1.0, queries=0)
    assert watch.phases == ["firing", "resolved"]
    assert "which is no recovery" in watch.state.annotations["summary"]
    assert "并非恢复" in watch.state.annotations["summary_zh"]
    watch.pass_buckets(24, rate=0.6)
    assert watch.phases == ["firing", "resolved"]


def test_an_alert_whose_rule_is_gone_ends_and_is_told_to_those_that_heard_of_it() -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(6, rate=0.1)
    (state,) = orphans([], watch.states)
    assert orphans([watch.rule], watch.states) == ()
    (ended,), (notice,) = end_orphans([state], {state.fingerprint: ["ops"]}, watch.now)
    assert (ended.phase, ended.ends_at, notice.channel) == (AlertPhase.RESOLVED, watch.now, "ops")
    assert "no longer configured" in ended.annotations["summary"]
    assert orphans([], [ended]) == ()


def test_a_pending_alert_whose_rule_is_gone_was_never_said() -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(2, rate=0.1)
    assert watch.state.phase is AlertPhase.PENDING
    (ended,), notices = end_orphans(watch.states, {}, watch.now)
    assert (ended.phase, notices) == (AlertPhase.INACTIVE, ())


def test_a_baseline_without_traffic_is_no_baseline() -> None:
    watch = Watch()
    watch.pass_buckets(3, rate=0.9, queries=3_000)
    watch.pass_buckets(3, rate=0.1)
    assert watch.states == ()


def test_the_baseline_never_learns_from_the_time_of_firing() -> None:
    """A long low time must not become the new normal by which the next drop is none."""
    watch = Watch(replace(RULE, baseline=timedelta(hours=3)))
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(18, rate=0.1)
    watch.pass_buckets(12, rate=0.6)
    watch.pass_buckets(18, rate=0.1)
    watch.pass_buckets(4, rate=0.6)

    assert watch.phases == ["firing", "resolved", "firing", "resolved"]
    second = watch.said[-1].alert
    assert second.baseline == pytest.approx(0.56, abs=0.05)
    assert len(watch.state.excluded) == 2
    watch.pass_buckets(60, rate=0.6)
    assert watch.state.excluded == ()


def test_the_bucket_that_is_not_over_does_not_count() -> None:
    rows = [bucket(NOON - number * BUCKET, 12_000, 20_000) for number in range(4, 40)]
    rows += [bucket(NOON - number * BUCKET, 12_000, 20_000) for number in (1, 2, 3)]
    rows.append(bucket(NOON, 0, 10_000_000))

    states, _ = evaluate([RULE], rows, (), NOON + 4 * MINUTE)
    assert states == ()
    states, _ = evaluate([RULE], rows, (), NOON + 5 * MINUTE)
    assert states[0].phase is AlertPhase.PENDING


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -5.0])
def test_counts_that_cannot_be_are_left_out(bad: float) -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.usages.append(bucket(watch.now - BUCKET, bad, 20_000))
    watch.usages.append(bucket(watch.now - BUCKET, 5.0, bad))
    watch.pass_buckets(3, rate=0.6)

    assert watch.states == ()


def test_absurd_but_finite_counts_say_nothing() -> None:
    rows = [bucket(NOON - number * BUCKET, 0.0, 1e308) for number in range(1, 40)]

    assert evaluate([RULE], rows, (), NOON) == ((), ())


def test_pools_are_told_apart_and_an_unknown_rule_is_left_alone() -> None:
    rows = [bucket(NOON - number * BUCKET, 12_000, 20_000, PoolName("good")) for number in range(1, 40)]
    rows += [bucket(NOON - number * BUCKET, 0 if number < 4 else 12_000, 20_000) for number in range(1, 40)]
    gone = AlertState("f" * 16, "gone", {}, AlertPhase.FIRING, NOON)
    own = Subject(RULE.name, {"alertname": RULE.name, "pool": "vanished"})
    vanished = AlertState(own.fingerprint, own.rule, own.labels, AlertPhase.FIRING, NOON, baseline=0.6)

    states, notices = evaluate([RULE], rows, (gone, vanished), NOON)

    assert {state.labels.get("pool"): state.phase.value for state in states} == {
        None: "firing",
        "vanished": "firing",
        "base": "pending",
    }
    assert gone in states
    assert notices == ()


def test_a_clock_set_back_cannot_hold_an_alert_for_ever() -> None:
    watch = Watch()
    watch.pass_buckets(24, rate=0.6)
    watch.pass_buckets(2, rate=0.1)
    ahead = replace(watch.state, since=watch.now + timedelta(days=3))
    watch.states = (ahead,)
    watch.pass_buckets(2, rate=0.1)
    assert watch.phases == ["firing"]

    watch.states = (replace(watch.state, starts_at=watch.now + timedelta(days=3)),)
    watch.pass_buckets(5, rate=0.6)
    ended = watch.said[-1].alert
    assert ended.starts_at == ended.ends_at


def test_identity_does_not_depend_on_the_order_of_labels() -> None:
    one, other = Subject("r", {"a": "1", "b": "2"}), Subject("r", {"b": "2", "a": "1"})

    assert one.fingerprint == other.fingerprint == "".join(one.fingerprint.split())
    assert one.fingerprint != Subject("r", {"a": "1"}).fingerprint


def test_reach_covers_window_and_baseline() -> None:
    assert reach_of([RULE]) == timedelta(hours=24, minutes=20)
    assert reach_of([]) == timedelta()


rates = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0, 2_000, 20_000])), min_size=10, max_size=60)


@settings(max_examples=40, deadline=None)
@given(rates, st.integers(0, 15), st.floats(0, 1), st.floats(0, 1))
def test_never_two_firings_without_a_resolve_between(
    days: list[tuple[float, int]], hold: int, drop: float, recover: float
) -> None:
    watch = Watch(replace(RULE, hold=hold * MINUTE, drop=drop, recover=recover, baseline=timedelta(hours=2)))
    for rate, queries in days:
        watch.pass_bucket(rate, queries)

    expected = ["firing", "resolved"] * len(watch.phases)
    assert watch.phases == expected[: len(watch.phases)]
    assert len({notice.id for notice in watch.said}) == len(watch.said)


@settings(max_examples=40, deadline=None)
@given(rates, st.sets(st.integers(0, 59)))
def test_a_restart_at_any_point_is_not_noticed(days: list[tuple[float, int]], restarts: set[int]) -> None:
    """After a restart the last evaluation is made again from the states that were saved."""
    steady, restarted = Watch(), Watch()
    for number, (rate, queries) in enumerate(days):
        steady.pass_bucket(rate, queries)
        restarted.pass_bucket(rate, queries)
        if number in restarts:
            restarted.states = tuple(replace(state) for state in reversed(restarted.states))
            restarted.states, notices = evaluate([RULE], restarted.usages, restarted.states, restarted.now)
            restarted.said += notices

    assert restarted.said == steady.said
    assert restarted.states == steady.states


@settings(max_examples=40, deadline=None)
@given(rates, st.integers(0, 59))
def test_a_crash_before_the_states_were_saved_repeats_the_same_notices(days: list[tuple[float, int]], at: int) -> None:
    """The same evaluation from the older states owes the same notices with the same ids: nobody is told twice."""
    watch = Watch()
    for rate, queries in days[:at]:
        watch.pass_bucket(rate, queries)
    arguments = ([RULE], watch.usages, watch.states, watch.now + BUCKET)

    assert evaluate(*arguments) == evaluate(*arguments)
