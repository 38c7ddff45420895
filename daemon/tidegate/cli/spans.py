"""Spans of time as people name them: a week, a month, two days."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from tidegate.runtime.errors import Permanent

Span = tuple[datetime, datetime]
_WEEK = re.compile(r"(\d{4})-?W(\d{1,2})", re.IGNORECASE)
_MONTH = re.compile(r"(\d{4})-(\d{1,2})")
_REMEDY = "write 2026-W48 (an ISO week), 2026-11 (a month), 2026-11-25 (a day) or 2026-11-01..2026-11-15"


def named_span(text: str) -> Span:
    """From the first moment (inclusive) to the last (exclusive), UTC; raises Permanent with what can be written."""
    first, dots, last = text.strip().partition("..")
    try:
        if dots:
            return moment(first), moment(last)
        if found := _WEEK.fullmatch(first):
            start = date.fromisocalendar(int(found[1]), int(found[2]), 1)
            return _start(start), _start(start + timedelta(days=7))
        if found := _MONTH.fullmatch(first):
            start = date(int(found[1]), int(found[2]), 1)
            return _start(start), _start((start + timedelta(days=32)).replace(day=1))
        day = date.fromisoformat(first)
    except ValueError as error:
        raise Permanent(f"{text!r} is no span of time: {_REMEDY}") from error
    return _start(day), _start(day + timedelta(days=1))


def moment(text: str) -> datetime:
    """A day's first moment, or a moment; without a zone in UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Permanent(f"{text!r} is no moment: write 2026-11-25 or 2026-11-25T12:00Z") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
