"""Estimated, partial, final: only evidence moves a day. Evidence is a bill, and the word of a bill or a person."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from tidegate.model.allocation import DayStatus
from tidegate.model.bill import SnapshotVersion
from tidegate.model.money import CostState

_SHARE = Decimal("1e-6")


@dataclass(frozen=True, slots=True)
class DayFacts:
    """What is known of a day beside its bills."""

    held: dict[str, Decimal]
    """GPU seconds held, by host."""
    billed: Collection[str]
    """Hosts of which a bill speaks."""
    seen: Decimal
    """Host seconds observed ..."""
    observable: Decimal
    """... of those that there were."""
    over: bool
    """The day has ended."""


def day_status(day: date, versions: Sequence[SnapshotVersion], facts: DayFacts) -> DayStatus:
    """The status of one UTC day, by the active versions."""
    touching = [version for version in versions if touches(version, day)]
    held, without = sum(facts.held.values()), {host for host in facts.held if host not in facts.billed}
    missing = sum(facts.held[host] for host in without)
    coverage = None if not held else ((held - missing) / held).quantize(_SHARE)
    notes = _notes(touching)
    closed = bool(touching) and all(version.closed for version in touching)
    aside = any(version.sums.aside.rows for version in touching)
    if not touching:
        state = CostState.ESTIMATED
    elif closed and not aside and facts.over:
        state = CostState.FINAL
    else:
        state = CostState.PARTIAL
    unbilled = tuple(sorted(without)) if state is CostState.FINAL else ()
    if unbilled:
        notes.append(f"{len(unbilled)} hosts held GPUs and stand in no bill: they cost 0 in it")
    return DayStatus(
        day,
        state,
        versions=tuple(sorted(version.id for version in touching)),
        coverage=coverage,
        observed=(facts.seen / facts.observable).quantize(_SHARE) if facts.observable else None,
        unbilled=unbilled,
        notes=tuple(notes),
    )


def touches(version: SnapshotVersion, day: date) -> bool:
    """Whether any of a version's charges may touch the day."""
    first, last = version.sums.first, version.sums.last
    if first is None or last is None:
        return False
    start = datetime.combine(day, time(), UTC)
    return first < start + timedelta(days=1) and (last > start or (first == last == start))


def _notes(versions: Sequence[SnapshotVersion]) -> list[str]:
    notes = []
    for version in versions:
        aside = version.sums.aside.rows
        if aside:
            notes.append(f"{aside} rows of bill {version.id} are quarantined: the day cannot be final")
        if not version.effective_usable:
            notes.append(f"bill {version.id} has no usable effective cost: its billed cost stands in")
    return notes


def together(states: Collection[CostState]) -> CostState:
    """The status of a period from its days': final when all are, estimated when all are."""
    if len(states) == 1:
        return next(iter(states))
    return CostState.PARTIAL if states else CostState.ESTIMATED
