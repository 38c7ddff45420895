"""Work out anew what is made of samples: mark a period, then do what is marked, here or by the controller's jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text

from tidegate.store.database import Database
from tidegate.store.schema import dirty_bucket
from tidegate.store.schema_series import series_window
from tidegate.store.store import Store

_WINDOWS = text(
    "UPDATE series_window SET version = version + 1, not_before = LEAST(not_before, :now) "
    "WHERE start > :since - interval '2 hours' AND start < :until AND done > 0 AND done = version"
)
"""Those that are waiting already, or still open, are done in their time anyhow."""
_BUCKETS = text(
    "INSERT INTO dirty_bucket (host, bucket, version) SELECT DISTINCT host, "
    "date_bin('5 minutes', at, TIMESTAMPTZ '2000-01-01 00:00:00+00'), 1 FROM report WHERE at >= :since AND at < :until "
    "ON CONFLICT (host, bucket) DO UPDATE SET version = dirty_bucket.version + 1, not_before = NULL"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is due and not done."""

    windows: int
    """Two hours of a host, of which chunks and rollups are made."""
    buckets: int
    """Five minutes of a host, of which token usage is made."""

    @property
    def total(self) -> int:
        """Both."""
        return self.windows + self.buckets


class Backfill:
    """Safe beside a controller, which goes on with what is left; the marks outlive whoever made them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._store = Store(database)

    def mark(self, since: datetime, until: datetime, now: datetime) -> Waiting:
        """Have everything that is made of the samples of the period worked out again; returns what waits now.

        Rollups are made of what is kept of every sample, so at most as far back as that reaches; token usage of the
        reports as they came. What is older stays as it is.
        """
        span = {"since": since, "until": until}
        with self._database.begin() as connection:
            connection.execute(_WINDOWS, {**span, "now": now})
            connection.execute(_BUCKETS, span)
        return self.waiting(now)

    def waiting(self, now: datetime) -> Waiting:
        """How much is due."""
        windows = (series_window.c.done < series_window.c.version) & (series_window.c.not_before <= now)
        buckets = dirty_bucket.c.not_before.is_(None) | (dirty_bucket.c.not_before <= now)
        query = select(
            select(func.count()).select_from(series_window).where(windows).scalar_subquery(),
            select(func.count()).select_from(dirty_bucket).where(buckets).scalar_subquery(),
        )
        with self._database.begin() as connection:
            return Waiting(*connection.execute(query).one())

    def step(self, now: datetime) -> Waiting:
        """Do one bounded piece of it; returns what is left."""
        self._store.compaction.compact(now)
        self._store.usage.roll_up(now)
        return self.waiting(now)
