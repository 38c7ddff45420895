"""The store's housekeeping, done by a process of its own: with thousands of hosts it works most of the time.

In the controller's own process its threads took Python's lock from those that take reports: four to fifteen
of a hundred took longer than 12 ms while it rolled up, ten times the p99 of a bare handler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidegate.model.activity import HostTokens
from tidegate.model.recent import EngineFigures, GpuFigures
from tidegate.model.records import LEVELS, Compacted, Levels, Pruned
from tidegate.model.usage import TokenUsage
from tidegate.runtime.aside import Aside
from tidegate.store.figures import StoredFigures
from tidegate.store.store import Store
from tidegate.store.usage import StoredUsage

_BACK = 10
"""How much nicer the process is: it gets what others leave of a busy core."""


class Housekeeping:
    """Hands work out; everything else of these ports is the store's own."""

    def __init__(self, store: Store, dsn: str) -> None:
        """`dsn` with its password."""
        self._aside = Aside("tidegate.store.housekeeper", dsn, back=_BACK)
        self._fence = store.fence
        self.usage = UsageKeeping(store.usage, self)
        self.figures = FigureKeeping(store.figures, self)
        self.compaction, self.retention = CompactionKeeping(self), RetentionKeeping(self)

    def do(self, name: str, *arguments: object) -> Any:
        """Have it done under the term that this thread works under (`store/housekeeper.py` has the names)."""
        return self._aside.call(name, self._fence.epoch(), *arguments)

    def close(self) -> None:
        """End the process, if there is one."""
        self._aside.close()


@dataclass(frozen=True, slots=True)
class UsageKeeping:
    """Implements the port `Usage`."""

    stored: StoredUsage
    house: Housekeeping

    def roll_up(self, now: datetime) -> int:
        """Work out every touched bucket, beside us."""
        return int(self.house.do("usage", now))

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        """Buckets with since <= bucket < until, by bucket and pool."""
        return self.stored.between(since, until)

    def by_host(self, since: datetime, until: datetime) -> Sequence[HostTokens]:
        """The same for each host and pool."""
        return self.stored.by_host(since, until)


@dataclass(frozen=True, slots=True)
class FigureKeeping:
    """Implements the port `Figures`."""

    stored: StoredFigures
    house: Housekeeping

    def record(self, engines: Sequence[EngineFigures], gpus: Sequence[GpuFigures]) -> None:
        """Keep the figures of one moment."""
        self.stored.record(engines, gpus)

    def roll_up(self, now: datetime) -> int:
        """Bring the rollups of pools up to date, beside us."""
        return int(self.house.do("pools", now))

    def prune(self, now: datetime, history: timedelta) -> Sequence[str]:
        """Drop what is too old, beside us."""
        dropped: Sequence[str] = self.house.do("boards", now, history)
        return dropped


@dataclass(frozen=True, slots=True)
class CompactionKeeping:
    """Implements the port `Compaction`."""

    house: Housekeeping

    def compact(self, now: datetime, minute_series: frozenset[str] = frozenset()) -> Compacted:
        """Compact what is due, beside us."""
        done: Compacted = self.house.do("compaction", now, minute_series)
        return done


@dataclass(frozen=True, slots=True)
class RetentionKeeping:
    """Implements the port `Retention`."""

    house: Housekeeping

    def prune(self, now: datetime, retention: timedelta, history: timedelta, levels: Levels = LEVELS) -> Pruned:
        """Forget what is too old, beside us."""
        pruned: Pruned = self.house.do("retention", now, retention, history, levels)
        return pruned
