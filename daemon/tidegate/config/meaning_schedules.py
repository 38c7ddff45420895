"""What the schedules of a pool mean: windows that end, bounds that hold together where windows overlap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time

from tidegate.config.lines import KeyPath
from tidegate.config.schema_fleet import Day, PoolScheduleTable, PoolTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.policy import Schedule

_DAY, _WEEK = 24 * 60, 7 * 24 * 60
_NUMBERS = {day: number for number, day in enumerate(Day)}


def pool_schedules(scope: Scope, entry: Entry[PoolTable]) -> tuple[Schedule, ...]:
    """The pool's schedules, in the order of the file."""
    tables = entry.table.schedule
    for position, table in enumerate(tables):
        _check_one(scope, entry, table, (*entry.at("schedule"), position))
    for later in range(len(tables)):
        for earlier in range(later):
            _check_pair(scope, entry, earlier, later)
    return tuple(
        Schedule(
            start=table.start,
            end=table.end,
            zone=table.time_zone,
            days=frozenset(_NUMBERS[day] for day in table.days),
            minimum=table.min,
            maximum=table.max,
        )
        for table in tables
    )


def _check_one(scope: Scope, entry: Entry[PoolTable], table: PoolScheduleTable, place: KeyPath) -> None:
    for key, message, rests_on in _wrong(table, entry.table):
        also = [(*place, "max")] if rests_on == "max" else [entry.at(rests_on.partition(".")[2])] if rests_on else []
        scope.findings.problem((*place, key) if key else place, message, also=also)


def _wrong(table: PoolScheduleTable, pool: PoolTable) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong with it, what else the complaint rests on)."""
    low, high = table.min, table.max
    if table.start == table.end:
        yield "end", f"is {table.end:%H:%M} like start: the window would never begin", ""
    if not table.days:
        yield "days", "names no day: leave it out for every day", ""
    if low is None and high is None:
        yield "", "changes nothing: give min or max", ""
    if low is not None and high is not None and low > high:
        yield "min", f"is {low}, above max ({high})", "max"
    if low is not None and low > pool.max:
        yield "min", f"is {low}, above the pool's max ({pool.max}), which no schedule can pass", "pool.max"
    if high is not None and high < pool.min:
        yield "max", f"is {high}, below the pool's min ({pool.min}), which no schedule can pass", "pool.min"


def _check_pair(scope: Scope, entry: Entry[PoolTable], earlier: int, later: int) -> None:
    """Where windows overlap the narrower bounds hold: the higher min, the lower max. They must leave a size."""
    one, other = entry.table.schedule[earlier], entry.table.schedule[later]
    lows = [table.min for table in (one, other) if table.min is not None]
    highs = [table.max for table in (one, other) if table.max is not None]
    if not lows or not highs or max(lows) <= min(highs) or one.time_zone != other.time_zone:
        return
    if _overlap(one, other):
        place = (*entry.at("schedule"), later)
        line = scope.findings.line((*entry.at("schedule"), earlier))
        scope.findings.problem(
            place,
            f"overlaps the one in line {line}, and together they leave no size:"
            f" at least {max(lows)}, at most {min(highs)}",
        )


def _overlap(one: PoolScheduleTable, other: PoolScheduleTable) -> bool:
    return any(
        start < other_end + shift and other_start + shift < end
        for start, end in _windows(one)
        for other_start, other_end in _windows(other)
        for shift in (-_WEEK, 0, _WEEK)
    )


def _windows(table: PoolScheduleTable) -> Iterator[tuple[int, int]]:
    """Minutes of the week; a window over midnight ends on the next day."""
    length = (_minutes(table.end) - _minutes(table.start)) % _DAY
    for day in table.days:
        start = _NUMBERS[day] * _DAY + _minutes(table.start)
        yield start, start + length


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute
