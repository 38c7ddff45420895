"""What lies in the database, for the operator: versions, sizes, parts, what waits to be worked out, the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select, text

from tidegate.store.database import Database
from tidegate.store.fence import NoFence
from tidegate.store.job_runs import JobRun, StoredJobRuns
from tidegate.store.migrate import Revisions, revisions, tables_of_ours
from tidegate.store.partitions import Part, parts
from tidegate.store.schema import dirty_bucket
from tidegate.store.schema_leadership import lease
from tidegate.store.schema_series import series_window

_SIZE = text(
    "SELECT sum(pg_total_relation_size(c.oid)), count(*) FILTER (WHERE c.relispartition AND c.relkind = 'r'), "
    "sum(greatest(c.reltuples, 0)) FILTER (WHERE c.relkind = 'r') FROM pg_class c "
    "WHERE c.oid = CAST(:name AS regclass) OR c.oid IN (SELECT relid FROM pg_partition_tree(CAST(:name AS regclass)))"
)
_LEVELS = {
    "report": "reports as they came",
    "chunk": "every sample, compacted",
    "chunk_clock": "every sample, compacted",
    "rollup_1m": "rollups, 1 min",
    "rollup_5m": "rollups, 5 min",
    "rollup_1h": "rollups, 1 h",
    "engine_figure": "recent figures for boards",
    "gpu_figure": "recent figures for boards",
}


@dataclass(frozen=True, slots=True)
class TableSize:
    """One table with all its parts."""

    name: str
    level: str
    """What of the time series it holds; empty for the others."""
    parts: int
    rows: int
    """As Postgres estimates it."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Lag:
    """Work that is due and not done: how much, and of when the oldest is; None when nothing waits."""

    what: str
    waiting: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Leads:
    """Who leads, or led last."""

    name: str
    epoch: int
    since: datetime
    now: bool


@dataclass(frozen=True, slots=True)
class Inventory:
    """The database at one moment. Without tables yet, what follows `size_bytes` is empty."""

    server_version: str
    revisions: Revisions
    size_bytes: int
    tables: tuple[TableSize, ...] = ()
    """Largest first."""
    parts: tuple[Part, ...] = ()
    lags: tuple[Lag, ...] = ()
    leader: Leads | None = None
    jobs: tuple[JobRun, ...] = ()


def inventory(database: Database, now: datetime) -> Inventory:
    """Look at everything that the catalogue knows; no table is scanned."""
    version, found = database.ping(), revisions(database)
    with database.begin() as connection:
        size = int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
        if not found.up_to_date:  # what an older revision lacks cannot be asked for
            return Inventory(version, found, size)
        sizes = [_size(connection, name) for name in tables_of_ours(connection)]
        lags, leader, present = _lags(connection, now), _leader(connection), parts(connection)
    jobs = StoredJobRuns(database, NoFence()).all()
    largest = sorted(sizes, key=lambda one: (-one.size_bytes, one.name))
    return Inventory(version, found, size, tuple(largest), tuple(present), lags, leader, tuple(jobs))


def _size(connection: Connection, name: str) -> TableSize:
    size, count, rows = connection.execute(_SIZE, {"name": name}).one()
    return TableSize(name, _LEVELS.get(name, ""), int(count), int(rows or 0), int(size))


def _lags(connection: Connection, now: datetime) -> tuple[Lag, ...]:
    due = dirty_bucket.c.not_before.is_(None) | (dirty_bucket.c.not_before <= now)
    buckets = connection.execute(select(func.count(), func.min(dirty_bucket.c.bucket)).where(due)).one()
    behind = (series_window.c.done < series_window.c.version) & (series_window.c.not_before <= now)
    windows = connection.execute(select(func.count(), func.min(series_window.c.start)).where(behind)).one()
    return (
        Lag("token usage: five-minute buckets of a host", buckets[0], buckets[1]),
        Lag("compaction and rollups: two hours of a host", windows[0], windows[1]),
    )


def _leader(connection: Connection) -> Leads | None:
    current = (lease.c.until > func.clock_timestamp()).label("current")
    row = connection.execute(select(lease.c.name, lease.c.epoch, lease.c.since, current)).first()
    return Leads(row.name, row.epoch, row.since, row.current) if row is not None and row.epoch else None
