"""The rule "the KV hit rate of a pool fell below its own trailing baseline", over whole five-minute buckets.

Both rates are sums of hits over sums of lookups, counted in prompt tokens. The window ends with the last bucket that
is over; the baseline is the time before the window, without any time in which the alert was firing or about to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.alert.machine import Finding, Verdict
from tidegate.model.alert import AlertPhase, AlertState
from tidegate.model.policy import HitRateRule
from tidegate.model.usage import BUCKET, TokenUsage, bucket_of

_SILENCE = timedelta(hours=1)
_Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Rate:
    """Hits over lookups, in prompt tokens."""

    hits: float
    queries: float

    def of(self, minimum: float) -> float | None:
        """The rate; None when fewer lookups than the minimum make it say nothing."""
        enough = self.queries > 0 and self.queries >= minimum
        return self.hits / self.queries if enough and math.isfinite(self.hits + self.queries) else None


def judge(rule: HitRateRule, pool: str, usages: Sequence[TokenUsage], state: AlertState, now: datetime) -> Finding:
    """Compare the pool's window with its baseline; while the alert fires, with the baseline that it fired on."""
    end = bucket_of(now)
    start = end - max(1, rule.window // BUCKET) * BUCKET
    window = _rate(usages, (start, end), ())
    value = window.of(rule.minimum_queries)
    baseline = state.baseline
    if state.phase is not AlertPhase.FIRING:
        learned = _rate(usages, (start - rule.baseline, start), state.excluded)
        baseline = learned.of(rule.minimum_queries)
    if value is None and state.phase is not AlertPhase.INACTIVE and _quiet(rule, usages, state, end):
        return Finding(Verdict.OVER, value, baseline, _over(rule, pool))
    if value is None or baseline is None:
        return Finding(Verdict.UNKNOWN, value, baseline)
    verdict = _verdict(rule, value, baseline)
    firing = not (state.phase is AlertPhase.FIRING and verdict is Verdict.GOOD)
    return Finding(verdict, value, baseline, summaries(rule, pool, value, baseline, firing=firing))


def _silence(rule: HitRateRule) -> timedelta:
    """After so long without enough lookups an alert ends: an hour, or the window where that is longer."""
    return max(_SILENCE, rule.window)


def _quiet(rule: HitRateRule, usages: Sequence[TokenUsage], state: AlertState, end: datetime) -> bool:
    """True when the pool looked up too little to be judged in all that time, and was active before it."""
    begin = end - _silence(rule)
    return state.since <= begin and _rate(usages, (begin, end), ()).of(rule.minimum_queries) is None


def _over(rule: HitRateRule, pool: str) -> dict[str, str]:
    minutes = _silence(rule) // timedelta(minutes=1)
    return {
        "summary": f"KV cache hit rate of pool {pool}: too few lookups, or no data, to judge it for {minutes} min; "
        "the alert ends, which is no recovery.",
        "summary_zh": f"资源池 {pool} 已有 {minutes} 分钟查询过少或没有数据，无法判断 KV 缓存命中率；"
        "告警就此结束，并非恢复。",
    }


def with_excluded(rule: HitRateRule, state: AlertState, now: datetime) -> AlertState:
    """Keep what a baseline may not learn from: a firing that has just ended, and earlier ones still within reach.

    The excluded time begins before the firing by the hold and the window: the drop was under way by then.
    """
    reach = now - rule.baseline - rule.window - BUCKET
    kept = tuple(span for span in state.excluded if span[1] > reach)
    if state.phase is AlertPhase.RESOLVED and state.starts_at is not None and state.ends_at is not None:
        span = (state.starts_at - rule.hold - rule.window, state.ends_at)
        kept = kept if span in kept or span[1] <= reach else (*kept, span)
    return replace(state, excluded=kept)


def summaries(rule: HitRateRule, pool: str, value: float, baseline: float, *, firing: bool) -> dict[str, str]:
    """What people read, in English and in Chinese, with the numbers."""
    minutes = max(1, rule.window // BUCKET) * BUCKET // timedelta(minutes=1)
    hours = rule.baseline / timedelta(hours=1)
    if firing:
        return {
            "summary": f"KV cache hit rate of pool {pool} is {value:.1%} over the last {minutes} min, "
            f"down from its baseline of {baseline:.1%} over the {hours:g} h before.",
            "summary_zh": f"资源池 {pool} 最近 {minutes} 分钟的 KV 缓存命中率为 {value:.1%}，"
            f"低于此前 {hours:g} 小时的基线 {baseline:.1%}。",
        }
    return {
        "summary": f"KV cache hit rate of pool {pool} has recovered: {value:.1%} over the last {minutes} min, "
        f"with a baseline of {baseline:.1%}.",
        "summary_zh": f"资源池 {pool} 的 KV 缓存命中率已恢复：最近 {minutes} 分钟为 {value:.1%}，"
        f"基线为 {baseline:.1%}。",
    }


def _verdict(rule: HitRateRule, value: float, baseline: float) -> Verdict:
    if value < baseline * (1 - rule.drop):
        return Verdict.BAD
    return Verdict.GOOD if value >= baseline * (1 - rule.recover) else Verdict.BETWEEN


def _rate(usages: Sequence[TokenUsage], span: _Span, excluded: Sequence[_Span]) -> Rate:
    """Sum the buckets that start within the span and touch nothing excluded; unusable counts are left out."""
    counted = [
        usage
        for usage in usages
        if span[0] <= usage.bucket < span[1] and _usable(usage) and not _touches(usage.bucket, excluded)
    ]
    return Rate(
        hits=sum((usage.cache_hits for usage in counted), 0.0),
        queries=sum((usage.cache_queries for usage in counted), 0.0),
    )


def _touches(bucket: datetime, excluded: Sequence[_Span]) -> bool:
    return any(bucket < end and bucket + BUCKET > start for start, end in excluded)


def _usable(usage: TokenUsage) -> bool:
    return all(math.isfinite(count) and count >= 0 for count in (usage.cache_hits, usage.cache_queries))
