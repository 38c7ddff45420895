"""The life of one alert: quiet, pending, firing, resolved. What was said is resolved once; what was not said, never.

A finding without data changes nothing: it neither starts, nor ends, nor confirms; only when there has been nothing to
judge for long (OVER), or nobody judges any more (`dropped`), an alert ends, and says that this is no recovery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.model.alert import AlertPhase, AlertState, Notice


class Verdict(StrEnum):
    """What the data say now."""

    BAD = "bad"
    """Beyond the line at which the alert fires."""
    BETWEEN = "between"
    """Neither bad enough to fire nor good enough to resolve."""
    GOOD = "good"
    UNKNOWN = "unknown"
    OVER = "over"
    """Nothing to judge for so long that the alert has nothing to say any more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with the figures that it rests on."""

    verdict: Verdict
    value: float | None = None
    baseline: float | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """What an alert is about: a rule and labels, the alert's identity."""

    rule: str
    labels: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """The same for the same rule and labels, in any order, for ever."""
        parts = [self.rule, *(f"{name}={value}" for name, value in sorted(self.labels.items()))]
        return _digest(parts)[:16]


def quiet(subject: Subject, now: datetime) -> AlertState:
    """The state of an alert that never was."""
    return AlertState(subject.fingerprint, subject.rule, subject.labels, AlertPhase.INACTIVE, since=now)


def advance(state: AlertState, finding: Finding, hold: timedelta, now: datetime) -> AlertState:
    """The next state. A time that a clock set back has left in the future is taken as `now`."""
    state = replace(state, since=min(state.since, now))
    if finding.verdict is Verdict.UNKNOWN:
        return state
    if state.phase is AlertPhase.FIRING:
        return (
            _resolved(state, finding, now)
            if finding.verdict in (Verdict.GOOD, Verdict.OVER)
            else replace(state, value=finding.value)
        )
    if finding.verdict is not Verdict.BAD:
        return replace(state, phase=AlertPhase.INACTIVE, since=now) if state.phase is AlertPhase.PENDING else state
    pending = state if state.phase is AlertPhase.PENDING else replace(state, phase=AlertPhase.PENDING, since=now)
    return _firing(pending, finding, now) if now - pending.since >= hold else pending


def dropped(state: AlertState, now: datetime) -> AlertState:
    """The end of an active alert whose rule is no longer configured; any other state as it is."""
    if state.phase is AlertPhase.PENDING:
        return replace(state, phase=AlertPhase.INACTIVE, since=now)
    if state.phase is not AlertPhase.FIRING:
        return state
    words = {
        "summary": f"The rule {state.rule} is no longer configured: its alert ends, which is no recovery.",
        "summary_zh": f"规则 {state.rule} 已不在配置中：其告警就此结束，并非恢复。",
    }
    return _resolved(state, Finding(Verdict.OVER, state.value, state.baseline, words), now)


def notices_of(before: AlertState, after: AlertState, channels: Sequence[str], now: datetime) -> tuple[Notice, ...]:
    """What each channel should hear of a step: only firing and resolving are said.

    A notice's id depends on the alert, the moment it fired, the phase and the channel, and on nothing else.
    """
    if after.phase is before.phase or after.phase not in (AlertPhase.FIRING, AlertPhase.RESOLVED):
        return ()
    return tuple(Notice(_notice_id(after, channel), channel, after, now) for channel in dict.fromkeys(channels))


def _firing(state: AlertState, finding: Finding, now: datetime) -> AlertState:
    return replace(
        state,
        phase=AlertPhase.FIRING,
        since=now,
        starts_at=now,
        ends_at=None,
        value=finding.value,
        baseline=finding.baseline,
        annotations=finding.annotations,
    )


def _resolved(state: AlertState, finding: Finding, now: datetime) -> AlertState:
    return replace(
        state,
        phase=AlertPhase.RESOLVED,
        since=now,
        ends_at=max(now, state.starts_at or now),
        value=finding.value,
        annotations=finding.annotations,
    )


def _notice_id(state: AlertState, channel: str) -> str:
    fired = state.starts_at.isoformat() if state.starts_at else ""
    return "msg_" + _digest([state.fingerprint, fired, state.phase.value, channel])[:32]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()
