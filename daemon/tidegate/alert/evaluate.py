"""Every rule over every pool, once: the states as they are now, and what people should hear. The door of this package.

Pure: the same states, usages and moment give the same answer, so a restart between two evaluations is not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tidegate.alert.hit_rate import judge, with_excluded
from tidegate.alert.machine import Subject, advance, dropped, notices_of, quiet
from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.policy import HitRateRule
from tidegate.model.usage import BUCKET, TokenUsage


def evaluate(
    rules: Sequence[HitRateRule], usages: Sequence[TokenUsage], states: Sequence[AlertState], now: datetime
) -> tuple[tuple[AlertState, ...], tuple[Notice, ...]]:
    """The next states, by fingerprint, and the notices that the step owes.

    `usages` must reach back over the longest window and baseline together (`reach_of`). A state whose rule is no
    longer configured is handed back unchanged (`end_orphans` ends it). An alert that never left INACTIVE has no state.
    """
    known = {state.fingerprint: state for state in states}
    notices: list[Notice] = []
    for rule in rules:
        for pool, found in _by_pool(rule, usages, states).items():
            subject = Subject(rule.name, {"alertname": rule.name, "pool": pool})
            before = known.get(subject.fingerprint, quiet(subject, now))
            after = with_excluded(rule, advance(before, judge(rule, pool, found, before, now), rule.hold, now), now)
            if subject.fingerprint in known or after.phase is not AlertPhase.INACTIVE:
                known[subject.fingerprint] = after
            notices += notices_of(before, after, rule.channels, now)
    return tuple(known[fingerprint] for fingerprint in sorted(known)), tuple(notices)


def orphans(rules: Sequence[HitRateRule], states: Iterable[AlertState]) -> tuple[AlertState, ...]:
    """The active alerts whose rule is no longer configured: nobody judges them any more."""
    configured = {rule.name for rule in rules}
    active = (AlertPhase.PENDING, AlertPhase.FIRING)
    return tuple(state for state in states if state.rule not in configured and state.phase in active)


def end_orphans(
    found: Sequence[AlertState], told: Mapping[str, Sequence[str]], now: datetime
) -> tuple[tuple[AlertState, ...], tuple[Notice, ...]]:
    """Their last states, and the notices to those that were told of them (by fingerprint)."""
    ended = tuple(dropped(state, now) for state in found)
    notices = [
        notice
        for before, after in zip(found, ended, strict=True)
        for notice in notices_of(before, after, told.get(before.fingerprint, ()), now)
    ]
    return ended, tuple(notices)


def reach_of(rules: Iterable[HitRateRule]) -> timedelta:
    """How far back usages are needed: the longest window and baseline together, and the bucket that is not over."""
    return max((rule.window + rule.baseline + BUCKET for rule in rules), default=timedelta())


def _by_pool(
    rule: HitRateRule, usages: Iterable[TokenUsage], states: Iterable[AlertState]
) -> dict[str, list[TokenUsage]]:
    """The buckets of each pool that has any, or has an alert of this rule; by pool."""
    pools: dict[str, list[TokenUsage]] = {
        state.labels["pool"]: [] for state in states if state.rule == rule.name and "pool" in state.labels
    }
    for usage in usages:
        pools.setdefault(usage.pool, []).append(usage)
    return dict(sorted(pools.items()))
