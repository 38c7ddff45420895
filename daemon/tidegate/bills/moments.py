"""Moments and periods as bills write them: to UTC, half-open. The order of day and month is decided once for a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

CHINA = timezone(timedelta(hours=8))
"""No summer time since 1991: a fixed offset is exact for every cloud bill."""
DAY = timedelta(days=1)
_YEARS = range(2000, 2200)
_PACIFIC_SUMMER = range(4, 12)
"""Months whose first midnight is in summer time: since 2007 it lasts from the second Sunday of March to 02:00 on the
first Sunday of November, so the first of November always begins in it."""

_SLASHED = re.compile(
    r"(\d{1,2})[/.](\d{1,2})[/.](\d{4}|\d{2})(?:[ T]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*([AaPp][Mm])?)?\s*Z?"
)
_YEAR_FIRST = re.compile(
    r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?(?:[ T]*(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(?:(Z|UTC|GMT)?\s*([+-]\d{1,2}(?::?\d{2})?)?)"
)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})")
_MONTH = re.compile(r"(\d{4})[-/年]?(\d{1,2})月?(?:\.0)?|(\d{4})-(\d{2})-01(?:[ T]00:00(?::00)?)?Z?")
_EPOCH = re.compile(r"1\d{9}(\.\d+)?|1\.\d+[eE]\+?0?9")
_FINE_EPOCH = re.compile(r"(1\d{9})(\d{3}|\d{6}|\d{9})")
"""Milliseconds, microseconds or nanoseconds, as columnar files are written to JSON."""


class MomentError(ValueError):
    """The cell should be a time; its text says what it is instead."""


def moment_of(text: str, zone: tzinfo = UTC, *, day_first: bool = False) -> datetime:
    """The moment in UTC; without a zone of its own it is in `zone`. Raises MomentError."""
    return _moment(text, zone, day_first)


@lru_cache(maxsize=65_536)
def _moment(text: str, zone: tzinfo, day_first: bool) -> datetime:  # noqa: FBT001 - the cache's key
    bare = text.strip().strip('"')
    try:
        moment = _iso(bare) or _by_pattern(bare, day_first=day_first)
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise MomentError(f"{text[:40]!r} is not a time") from None
    if moment.year not in _YEARS:
        raise MomentError(f"{text[:40]!r}: the year is out of range")
    return moment


def _iso(bare: str) -> datetime | None:
    if not bare[:4].isdigit() or len(bare) < 10 or bare.isdigit():
        return None
    try:
        return datetime.fromisoformat(bare)
    except ValueError:
        return None


def _by_pattern(bare: str, *, day_first: bool) -> datetime:
    if found := _SLASHED.fullmatch(bare):
        first, second, year = int(found[1]), int(found[2]), int(found[3])
        month, day = (second, first) if day_first or "." in bare[:3] else (first, second)
        hour = int(found[4] or 0)
        if found[7]:
            hour = hour % 12 + (12 if found[7].lower() == "pm" else 0)
        return datetime(  # noqa: DTZ001 - the caller sets the zone
            year + 2000 if year < 100 else year, month, day, hour, int(found[5] or 0), int(found[6] or 0)
        )
    if found := _YEAR_FIRST.fullmatch(bare):
        micro = int((found[7] or "0").ljust(6, "0")[:6])
        year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 4, 5, 6))
        return datetime(year, month, day, hour, minute, second, micro, tzinfo=_zone(found[8], found[9]))
    if found := _COMPACT.fullmatch(bare):
        return datetime(int(found[1]), int(found[2]), int(found[3]))  # noqa: DTZ001
    if _EPOCH.fullmatch(bare):
        return datetime.fromtimestamp(float(bare), UTC)
    if found := _FINE_EPOCH.fullmatch(bare):
        return datetime.fromtimestamp(int(found[1]), UTC) + timedelta(microseconds=int(found[2].ljust(6, "0")[:6]))
    raise MomentError(bare)


def _zone(name: str | None, offset: str | None) -> tzinfo | None:
    if offset:
        sign, digits = (-1 if offset[0] == "-" else 1), offset[1:].replace(":", "")
        return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0)))
    return UTC if name else None


def month_of(text: str, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """The billing cycle `2026-03`, `202603`, `2026年3月` or `2026-03-01`, in UTC. Raises MomentError."""
    found = _MONTH.fullmatch(text.strip().strip('"'))
    year, month = (int(found[1] or found[3]), int(found[2] or found[4])) if found else (0, 0)
    if not 1 <= month <= 12 or year not in _YEARS:
        raise MomentError(f"{text[:40]!r} is not a month")
    return _first(year, month, zone), _first(*_next(year, month), zone)


def pacific_month(text: str) -> tuple[datetime, datetime]:
    """GCP's invoice month `202603`, which follows US Pacific time: 743 hours in March, 721 in November."""
    start, end = month_of(text)
    return tuple(  # type: ignore[return-value]  # of two
        first + timedelta(hours=7 if first.month in _PACIFIC_SUMMER else 8) for first in (start, end)
    )


def month_around(moment: datetime, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """The calendar month of `zone` that holds the moment, in UTC."""
    local = moment.astimezone(zone)
    return _first(local.year, local.month, zone), _first(*_next(local.year, local.month), zone)


def _first(year: int, month: int, zone: tzinfo) -> datetime:
    return datetime(year, month, 1, tzinfo=zone).astimezone(UTC)


def _next(year: int, month: int) -> tuple[int, int]:
    return (year + 1, 1) if month == 12 else (year, month + 1)


def inclusive_end(last_day: datetime) -> datetime:
    """The half-open end of a period whose last day is named: the midnight after it."""
    at_midnight = last_day.hour == last_day.minute == last_day.second == 0
    return last_day + DAY if at_midnight else last_day.replace(hour=0, minute=0, second=0, microsecond=0) + DAY


def writes_day_first(samples: Iterable[tuple[str, ...]]) -> bool:
    """Whether a file writes 31/12/2026. Each sample holds the cells of one row that should be times.

    What cannot be a month decides; where nothing does, periods that begin on the first of a month do; else the
    month comes first, as every export that we know of writes it.
    """
    surely_day = surely_month = firsts_as_day = firsts_as_month = 0
    for cells in samples:
        for cell in cells:
            if not (found := _SLASHED.fullmatch(cell.strip())) or "." in cell[:3]:
                continue
            first, second = int(found[1]), int(found[2])
            surely_day += first > 12
            surely_month += second > 12
            firsts_as_day += first == 1 and second != 1
            firsts_as_month += second == 1 and first != 1
    if surely_day or surely_month:
        return surely_day > surely_month
    return firsts_as_day > firsts_as_month
