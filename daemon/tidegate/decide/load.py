"""From signals to the load of a service, with three-valued truth: a value, known to be idle, or missing.

A replica with a missing signal is silent. Silent ones are taken as exactly at target, so that they neither ask for
more nor for less (or above it, where the part that is known already says so). Up to a bounded share of them may be
silent, at least one but never all; beyond that the service is blind: it may grow, it may not shrink.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tidegate.model.decision import UsedSignal
from tidegate.model.fleet import Idle, Replica, Signal, SignalName, Value
from tidegate.model.reading import Gap, Missing

FIRST_WORDS = timedelta(seconds=90)
"""By then a replica that has become ready was read at least twice: silence is no longer that of the new."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Measure:
    """What is read in a replica, and what it sums to when the replica is exactly as busy as it should be."""

    names: tuple[SignalName, ...]
    at_target: float


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a service's ready replicas."""

    total: float
    """The sum over ready replicas, silent ones at target, plus what leaving ones still carry."""
    ready: int
    silent: int
    blind: bool
    """Too little is known to shrink."""
    gaps: tuple[Gap, ...]
    """Why replicas are silent, most frequent first."""


def load_of(ready: Sequence[Replica], leaving: Sequence[Replica], measure: Measure, silent_share: float) -> Load:
    """Sum a measure over ready replicas; leaving ones add what is known of the requests they still carry."""
    total = sum((_known(replica, measure) for replica in leaving), 0.0)
    gaps = Counter[Gap]()
    silent = 0
    for replica in ready:
        missing = _missing(replica, measure)
        known = _known(replica, measure)
        total += max(known, measure.at_target) if missing else known
        silent += bool(missing)
        gaps.update(missing[:1])
    allowed = max(1, math.ceil(silent_share * len(ready) - _ROUNDING))
    blind = silent > allowed or silent == len(ready)
    return Load(total, len(ready), silent, blind, tuple(gap for gap, _ in gaps.most_common()))


def used_signals(replicas: Sequence[Replica], names: Sequence[SignalName]) -> tuple[UsedSignal, ...]:
    """These signals of these replicas, with their ages or the reasons why they are missing."""
    return tuple(UsedSignal(replica.id, name, checked(replica.signal(name))) for replica in replicas for name in names)


def checked(signal: Signal) -> Signal:
    """The signal, or why its number cannot be believed: what is not finite or is negative is missing, never a load."""
    if isinstance(signal, Value) and not math.isfinite(signal.value):
        return Missing(Gap.NOT_FINITE)
    if isinstance(signal, Value) and signal.value < 0:
        return Missing(Gap.MALFORMED)
    return signal


def _known(replica: Replica, measure: Measure) -> float:
    # not math.fsum: it raises where a sum of absurd but finite numbers is simply infinite
    return sum((_number(checked(replica.signal(name))) for name in measure.names), 0.0)


def _number(signal: Signal) -> float:
    match signal:
        case Value(value=value):
            return value
        case Idle() | Missing():  # pragma: no branch - the last of them
            return 0.0


def _missing(replica: Replica, measure: Measure) -> list[Gap]:
    signals = (checked(replica.signal(name)) for name in measure.names)
    return [signal.why for signal in signals if isinstance(signal, Missing)]
