"""Token usage from a Prometheus' samples, in the same five-minute buckets, by the same increases, kept in our store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tidegate.controller.ports import Usage
from tidegate.controller.source_ports import Buckets, Samples, Words
from tidegate.model.activity import HostTokens
from tidegate.model.usage import BUCKET, TokenUsage, bucket_of

FIRST_LOOK = timedelta(days=7)
"""How much of Prometheus' past is worked out when nothing is stored: an alert's baseline, and a week of costs."""
AGAIN = timedelta(hours=6)
"""Samples may come so late (a remote write that was cut off) and still be counted."""
_AT_ONCE = 24
"""Buckets in one call: two hours of backlog a minute."""
_SWEPT = 2
"""Old buckets that each call looks at again: the last six hours in about half an hour."""
_BORDER = timedelta(seconds=90)
"""The samples on either side that say where a bucket's increases begin, and that it is over."""


class MeasuredUsage:
    """Implements the port `Usage`: one query a bucket."""

    def __init__(self, samples: Samples, words: Words, buckets: Buckets, stored: Usage) -> None:
        self._samples, self._words = samples, words
        self._buckets, self._stored = buckets, stored
        self._next: datetime | None = None
        self._sweep: datetime | None = None

    def roll_up(self, now: datetime) -> int:
        """Work out what is new, then look again at a few older buckets; returns how many had samples."""
        worked = 0
        current = bucket_of(now)
        bucket = self._begin(now) if self._next is None else self._next
        for _ in range(_AT_ONCE):
            worked += self._work(bucket, now)
            # The one before the current is taken again until its last samples must have come.
            self._next = min(bucket + BUCKET, bucket_of(now - _BORDER))
            if bucket >= current:
                break
            bucket += BUCKET
        return worked + self._look_again(now)

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        """Buckets with since <= bucket < until, by bucket and pool."""
        return self._stored.between(since, until)

    def by_host(self, since: datetime, until: datetime) -> Sequence[HostTokens]:
        """The same for each host and pool."""
        return self._stored.by_host(since, until)

    def _begin(self, now: datetime) -> datetime:
        """Where to go on: after what is stored, or at the first sample that there is."""
        oldest, newest = bucket_of(now - FIRST_LOOK), self._buckets.newest()
        if newest is not None:
            return min(bucket_of(now), max(oldest, newest - BUCKET))
        days = f"{FIRST_LOOK.days}d"
        for series in self._samples.instant(self._words.earliest(days), now).series:
            for _, seconds in series.points:
                if math.isfinite(seconds) and oldest.timestamp() < seconds < now.timestamp():
                    return bucket_of(datetime.fromtimestamp(seconds, UTC)) - BUCKET
        return bucket_of(now) - BUCKET

    def _look_again(self, now: datetime) -> int:
        if self._next is None or self._next < bucket_of(now) - 2 * BUCKET:
            return 0  # the backlog comes first
        oldest, newest = bucket_of(now - AGAIN), bucket_of(now) - 2 * BUCKET
        worked = 0
        for _ in range(_SWEPT):
            bucket = oldest if self._sweep is None or not oldest <= self._sweep <= newest else self._sweep
            worked += self._work(bucket, now)
            self._sweep = bucket + BUCKET
        return worked

    def _work(self, bucket: datetime, now: datetime) -> int:
        span = BUCKET + 2 * _BORDER
        found = self._samples.raw(self._words.usage(), bucket + BUCKET + _BORDER, span)
        readings = self._words.read(found.series).readings
        return 1 if readings and self._buckets.put(bucket, readings, now) else 0
