"""What boards read: the newest figures of engines and GPUs, and pools rolled up in five minutes and an hour.

A rollup is worked out anew from what it is made of, never added to: a job that is stopped anywhere and run again does
no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Table, delete, func, select, text

from tidegate.model.recent import EngineFigures, GpuFigures
from tidegate.runtime.pace import Pace
from tidegate.store import binary
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.partitions import Partitions, drop, parts
from tidegate.store.schema import pool_figure, usage
from tidegate.store.schema_figures import (
    COARSE,
    ENGINE_FIGURES,
    FINE,
    GPU_FIGURES,
    POOL_FIGURES,
    RECENT,
    SUMMED,
    engine_figure,
    gpu_figure,
    pool_rollup,
    usage_mark,
    usage_rollup,
)

KEPT = timedelta(days=3)
"""How long figures of engines and GPUs are kept."""
FINE_KEPT = timedelta(days=100)
"""How long five minutes are; hours are kept as long as all history."""
_AT_ONCE = timedelta(days=1)
"""Of ticks in one transaction."""
_REST = 0.006
"""Seconds between two pieces of many rows: about as long as the server works on one."""
_OVERLAP = timedelta(hours=2)
_MARK_USAGE = (
    "INSERT INTO usage_mark (bucket) SELECT unnest(%s::timestamptz[]) "
    "ON CONFLICT (bucket) DO UPDATE SET bucket = excluded.bucket"
)
_EPOCH = "TIMESTAMPTZ '2000-01-01 00:00+00'"
_PARTS = (("sum", "sum({0})"), ("count", "count({0})"), ("min", "min({0})"), ("max", "max({0})"))
_WIDER = (("sum", "sum({0}_sum)"), ("count", "sum({0}_count)"), ("min", "min({0}_min)"), ("max", "max({0}_max)"))


class StoredFigures:
    """Implements the port `Figures`."""

    def __init__(self, database: Database, fence: Fence, partitions: Partitions, pace: Pace) -> None:
        self._database, self._fence, self._partitions, self._pace = database, fence, partitions, pace
        self._caught_up = False

    def record(self, engines: Sequence[EngineFigures], gpus: Sequence[GpuFigures]) -> None:
        """Keep the figures of one moment."""
        self._record(engine_figure, {row.at for row in engines}, list(map(_engine, engines)))
        self._record(gpu_figure, {row.at for row in gpus}, list(map(_gpu, gpus)))

    def _record(self, table: Table, moments: Collection[datetime], rows: Sequence[bytes]) -> None:
        """Rows in the order of the table's columns."""
        if not rows:
            return
        self._partitions.ensure(table.name, moments, min(moments))
        with self._database.begin(durable=False) as connection:
            self._fence.check(connection)
            binary.copy_in(connection, table.name, [column.name for column in table.columns], rows, self._rest)

    def _rest(self) -> None:
        self._pace.rest(_REST)

    def roll_up(self, now: datetime) -> int:
        """Bring the rollups of pools up to date; returns how many of their rows were written."""
        written = 0
        for since in self._days_of_ticks():
            with self._database.begin() as connection:
                self._fence.check(connection)
                written += _roll_up_ticks(connection, since, since + _AT_ONCE)
        with self._database.begin() as connection:
            self._fence.check(connection)
            if not self._caught_up:  # a controller of an earlier version may have written last
                mark_usage(connection, _buckets(connection, now - _OVERLAP))
            written += _roll_up_usage(connection)
        self._caught_up = True
        return written

    def _days_of_ticks(self) -> Sequence[datetime]:
        """Where a day's work on ticks begins: at the hour of the newest bucket that there is, or of the first tick."""
        done = select(func.max(pool_rollup.c.at)).where(pool_rollup.c.resolution == _seconds(FINE)).scalar_subquery()
        first = func.coalesce(done, select(func.min(pool_figure.c.at)).scalar_subquery())
        with self._database.begin() as connection:
            since, newest = connection.execute(select(first, func.max(pool_figure.c.at))).one()
        if since is None or newest is None:
            return ()
        since = _floor(since, COARSE)  # whole hours, so that an hour's row is made of all of its ticks
        return [since + number * _AT_ONCE for number in range((newest - since) // _AT_ONCE + 1)]

    def prune(self, now: datetime, history: timedelta) -> Sequence[str]:
        """Drop what is too old; returns the names of the days that went."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            for table, moment in ((pool_rollup, pool_rollup.c.at), (usage_rollup, usage_rollup.c.bucket)):
                fine = (table.c.resolution == _seconds(FINE)) & (moment < now - min(history, FINE_KEPT))
                connection.execute(delete(table).where(fine | (moment < now - history)))
            old = [part for part in parts(connection, [table.name for table in RECENT]) if part.end <= now - KEPT]
        return drop(self._database, old)


def mark_usage(connection: Connection, buckets: Collection[datetime]) -> None:
    """Note that these buckets of `usage` change in this transaction.

    A mark that is there already is locked all the same: whoever takes it away waits for us, and sees what we wrote.
    """
    if buckets:
        with binary.cursor(connection) as bare:
            bare.execute(_MARK_USAGE, [binary.text_array([bucket.isoformat() for bucket in sorted(buckets)])])


def _engine(row: EngineFigures) -> bytes:
    words = map(binary.text, (row.host, row.engine, row.pool, row.service, row.state))
    figures = [binary.real(row.figures.get(name)) for name in ENGINE_FIGURES]
    return b"".join((binary.moment(row.at), *words, binary.small(row.gpus), *figures))


def _gpu(row: GpuFigures) -> bytes:
    place = (binary.moment(row.at), binary.text(row.host), binary.text(row.gpu), binary.small(row.index))
    words = map(binary.text, (row.engine, row.pool, row.service))
    figures = [binary.real(row.figures.get(name)) for name in GPU_FIGURES]
    return b"".join((*place, *words, binary.flag(row.up), *figures))


def _roll_up_ticks(connection: Connection, since: datetime, until: datetime) -> int:
    span = {"since": since, "until": until}
    return _merge(connection, _FROM_TICKS, span) + _merge(connection, _FROM_FINE, span)


def _buckets(connection: Connection, since: datetime) -> list[datetime]:
    found = connection.execute(select(usage.c.bucket).where(usage.c.bucket >= since).distinct())
    return list(found.scalars())


def _merge(connection: Connection, statement: str, span: dict[str, datetime]) -> int:
    return int(connection.execute(text(statement), span).rowcount)


def _pool_statement(resolution: timedelta, rules: Sequence[tuple[str, str]], ticks: str, source: str) -> str:
    columns = [f"{figure}_{part}" for figure in POOL_FIGURES for part, _ in rules]
    values = [rule.format(figure) for figure in POOL_FIGURES for _, rule in rules]
    changes = ", ".join(f"{column} = excluded.{column}" for column in ("service", "ticks", *columns))
    seconds = _seconds(resolution)
    return (
        f"INSERT INTO pool_rollup (resolution, at, pool, service, ticks, {', '.join(columns)}) "  # noqa: S608
        f"SELECT {seconds}, date_bin('{seconds} s', at, {_EPOCH}) AS start, pool, max(service), {ticks}, "
        f"{', '.join(values)} FROM {source} AND at >= :since AND at < :until GROUP BY start, pool "
        f"ON CONFLICT (resolution, at, pool) DO UPDATE SET {changes}"
    )


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


_FROM_TICKS = _pool_statement(FINE, _PARTS, "count(*)", "pool_figure WHERE true")
_FROM_FINE = _pool_statement(COARSE, _WIDER, "sum(ticks)", f"pool_rollup WHERE resolution = {_seconds(FINE)}")


def _floor(moment: datetime, width: timedelta) -> datetime:
    return moment - (moment - datetime(2000, 1, 1, tzinfo=UTC)) % width


def _roll_up_usage(connection: Connection) -> int:
    buckets = connection.execute(delete(usage_mark).returning(usage_mark.c.bucket)).scalars().all()
    hours = {_floor(bucket, COARSE) for bucket in buckets}
    fine = _replace(connection, FINE, set(buckets), "usage WHERE pool <> ''")
    return fine + _replace(connection, COARSE, hours, f"usage_rollup WHERE resolution = {_seconds(FINE)}")


def _replace(connection: Connection, resolution: timedelta, starts: Collection[datetime], source: str) -> int:
    """Work out the buckets that begin at `starts` anew; a pool that has no part in one any more leaves it."""
    if not starts:
        return 0
    seconds = _seconds(resolution)
    given = {"starts": sorted(starts), "first": min(starts), "last": max(starts) + resolution}
    gone = delete(usage_rollup).where(usage_rollup.c.resolution == seconds, usage_rollup.c.bucket.in_(starts))
    connection.execute(gone)
    sums = ", ".join(f"sum({name})" for name in SUMMED)
    statement = (
        f"INSERT INTO usage_rollup (resolution, bucket, pool, {', '.join(SUMMED)}, partial) "  # noqa: S608
        f"SELECT {seconds}, date_bin('{seconds} s', bucket, {_EPOCH}) AS start, pool, {sums}, bool_or(partial) "
        f"FROM {source} AND bucket >= :first AND bucket < :last "
        f"AND date_bin('{seconds} s', bucket, {_EPOCH}) = ANY(:starts) GROUP BY start, pool"
    )
    return int(connection.execute(text(statement), given).rowcount)
