"""A period of time, exact: hours that add up over any partition, and the token buckets that fall into it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tidegate.model.usage import BUCKET, Holding

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_HOUR = Decimal(3_600_000_000)
_INSTANT = Decimal("1e-12")


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` (inclusive) to `until` (exclusive)."""

    since: datetime
    until: datetime

    def hours_of(self, holding: Holding) -> Decimal:
        """How long the holding lasted within the period, in hours; 0 when it did not."""
        start, end = max(self.since, holding.start), min(self.until, holding.end)
        return max(Decimal(0), _hours(end) - _hours(start))

    def buckets_of(self, holdings: Iterable[Holding]) -> frozenset[int]:
        """The whole buckets within the period that any of the holdings touches, as numbers since 1970."""
        reached, last = -((_EPOCH - self.since) // BUCKET), bucket_number(self.until)
        found: set[int] = set()
        for holding in sorted(holdings, key=lambda one: one.start):
            start = max(reached, bucket_number(holding.start))
            end = min(last, bucket_number(holding.end - _MICROSECOND) + 1)
            found.update(range(start, end))
            reached = max(reached, end)
        return frozenset(found)


def bucket_number(at: datetime) -> int:
    """The number of the bucket that holds this moment, counted from 1970."""
    return (at - _EPOCH) // BUCKET


def hours_at(micros: int) -> Decimal:
    """A moment in hours since 1970: an instant is rounded, a duration never, so durations add up exactly."""
    return (Decimal(micros) / _PER_HOUR).quantize(_INSTANT)


def _hours(at: datetime) -> Decimal:
    return hours_at((at - _EPOCH) // _MICROSECOND)
