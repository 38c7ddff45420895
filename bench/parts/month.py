"""A month of a fleet in our store, made of a few days that were really written: rows are copied inside the database.

What a template host wrote is copied to the other hosts and the other days under their own numbers; clocks are encoded
anew for each. Ticks, usage and figures are made by the database. So every table is as full as after a month, and its
rows are what the write path makes of a synthetic fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from parts.fleet_samples import STEP_SECONDS, HostSamples
from parts.stored_fleet import SPAN_SECONDS, StoredHost

from tidegate.store import binary
from tidegate.store.chunk_codec import encode_clock
from tidegate.store.database import Database
from tidegate.store.partitions import ensure, part_of
from tidegate.store.schema_series import COLD

TEMPLATE_DAYS = 3
DAYS, SAMPLES_KEPT = 30, 15
"""Of rollups, and of samples as they were taken (`retention_days`)."""
POOLS = 10
ENGINES = 8
"""Of a host."""
ROUNDS = int(SPAN_SECONDS / STEP_SECONDS)
_UNLIMITED = timedelta()
_TABLES = {"chunk": ("payload",), "rollup_5m": (), "rollup_1h": ()}
_PARTS = ("buckets", "sum", "count", "minimum", "maximum", "increase", "last")


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many hosts, and the midnight at which the month ends."""

    hosts: int
    end: datetime

    @property
    def start(self) -> datetime:
        """When it began."""
        return self.end - timedelta(days=DAYS)


def samples(database: Database, fleet: Fleet) -> None:
    """Chunks of the last days and rollups of the month, of every host."""
    template = HostSamples(1, fleet.start.timestamp())
    stored = StoredHost(database, template.name, template.keys, template.start)
    moments = []
    for span in range(TEMPLATE_DAYS * 3):
        made = template.next(ROUNDS)
        moments.append(made.moments)
        stored.write(template.start + span * SPAN_SECONDS, made.moments, made.values)
    others = [HostSamples(number + 1, template.start) for number in range(1, fleet.hosts)]
    for host in others:
        StoredHost(database, host.name, host.keys, template.start)
    _make_parts(database, fleet)
    for name in ("series", "series_block", "chunk", "rollup_5m", "rollup_1h"):
        _run(database, f"ANALYZE {name}")
    for shift in range(0, DAYS, TEMPLATE_DAYS):
        for host in ([] if shift == 0 else [template]) + others:
            _copy(database, host.name, template.name, fleet, timedelta(days=shift))
            _clocks(database, host, moments, fleet, timedelta(days=shift))
    _run(database, "DELETE FROM chunk WHERE start < %s", fleet.end - timedelta(days=SAMPLES_KEPT))
    _run(database, "DELETE FROM chunk_clock WHERE start < %s", fleet.end - timedelta(days=SAMPLES_KEPT))


def _make_parts(database: Database, fleet: Fleet) -> None:
    days = [fleet.start + timedelta(days=day) for day in range(DAYS)]
    parents = ("chunk_cold", "chunk_clock_cold", "rollup_5m_cold", "rollup_1h_cold")
    wanted = {part_of(parent, day) for parent in parents for day in days}
    ensure(database, wanted)
    for part in wanted:  # half the writing, the same size: the database does not outlive the bench
        _run(database, f"ALTER TABLE {part.name} SET UNLOGGED")


def _copy(database: Database, host: str, template: str, fleet: Fleet, shift: timedelta) -> None:
    """The template's rows as the host's, later by `shift`; samples only of the days that are kept."""
    kept = fleet.end - timedelta(days=SAMPLES_KEPT)
    for table, columns in _TABLES.items():
        values = ", ".join(f'"{name}"' for name in columns or _PARTS)
        since = kept - shift if table == "chunk" else fleet.start
        _run(
            database,
            f"""
            INSERT INTO {table} (cold, block, start, series, {values})
            SELECT true, theirs.id, c.start + %s, (
                       SELECT array_agg(mine.id ORDER BY u.place)
                       FROM unnest(c.series) WITH ORDINALITY AS u (id, place)
                       JOIN {_PAIRS} AS mine ON mine.other = u.id), {values}
            FROM {table} c
            JOIN series_block ours ON ours.id = c.block AND ours.host = %s
            JOIN series_block theirs ON theirs.host = %s AND theirs.scope = ours.scope
                 AND theirs.name = ours.name AND theirs.number = ours.number
            WHERE c.cold AND c.start >= %s AND c.start < %s
            """,
            shift,
            template,
            host,
            max(since, fleet.start),
            fleet.start + timedelta(days=TEMPLATE_DAYS),
            pairs=(template, host),
        )


_PAIRS = "numbers_of_series"
"""A temporary table: each series of a host beside the template's in the same place."""


def _run(database: Database, statement: str, *values: object, pairs: tuple[str, str] | None = None) -> None:
    with database.begin(statement=_UNLIMITED) as connection, binary.cursor(connection) as cursor:
        if pairs is not None:
            cursor.execute(
                f"CREATE TEMPORARY TABLE {_PAIRS} ON COMMIT DROP AS "
                "SELECT a.id AS other, b.id FROM "
                "(SELECT id, row_number() OVER (ORDER BY id) AS place FROM series WHERE host = %s) a JOIN "
                "(SELECT id, row_number() OVER (ORDER BY id) AS place FROM series WHERE host = %s) b USING (place)",
                pairs,
            )
            cursor.execute(f"CREATE UNIQUE INDEX ON {_PAIRS} (other)")
            cursor.execute(f"ANALYZE {_PAIRS}")
        cursor.execute(statement.encode(), values or None)


def _clocks(
    database: Database, host: HostSamples, moments: Sequence[np.ndarray], fleet: Fleet, shift: timedelta
) -> None:
    rows = []
    for number, found in enumerate(moments):
        begin = fleet.start + shift + COLD * number
        clock = np.round((found + shift.total_seconds()) * 1_000_000).astype(np.int64)
        head = binary.flag(True) + binary.text(host.name) + binary.moment(begin) + binary.integer(len(clock))  # noqa: FBT003
        rows.append(head + binary.blob(encode_clock(clock)))
    with database.begin() as connection:
        binary.copy_in(connection, "chunk_clock", ("cold", "host", "start", "samples", "payload"), rows)


def ticks(database: Database, fleet: Fleet) -> None:
    """A month of tick figures, and as much of decisions as is kept: every tick's of the last days, all changes."""
    _run(
        database,
        """
        INSERT INTO pool_figure
        SELECT at, 'pool-' || p, 'chat', 3, 0, 0, 3, 6, 20 * load, 5 * load, load, load, 0.6, 9000 * load,
               900 * load, 1650 * load, 0.3 + load, 0.03, 9 + load, 0.4
        FROM (SELECT at, 0.55 - 0.45 * cos(2 * pi() * extract(epoch FROM at)::float8 / 86400) AS load
              FROM generate_series(%s::timestamptz, %s::timestamptz - interval '15 s', interval '15 s') at) t,
             generate_series(1, %s::int) p
        """,
        fleet.start,
        fleet.end,
        POOLS,
    )
    _run(
        database,
        """
        INSERT INTO action (at, pool, kind, replica, reason, outcome)
        SELECT at, 'pool-' || p, 'start', 'pool-' || p || '-' || extract(epoch FROM at)::bigint, 'load grew', 'applied'
        FROM generate_series(%s::timestamptz, %s::timestamptz - interval '1 s', interval '1 h') at,
             generate_series(1, %s::int) p
        """,
        fleet.start,
        fleet.end,
        POOLS,
    )
    _run(
        database,
        """
        INSERT INTO decision
            (at, pool, current, ready, starting, leaving, wanted, target, reason, limits, signals, mode)
        SELECT at, 'pool-' || p, 3, 3, 0, 0, 4, 3, '23 requests over 3 replicas', '{max}',
               '[["pool-1-7", "queue_depth", 4.0, 6.0], ["pool-1-8", "queue_depth", 3.0, 6.0]]', 'act'
        FROM generate_series(%s::timestamptz, %s::timestamptz - interval '15 s', interval '15 s') at,
             generate_series(1, %s::int) p
        WHERE at >= %s OR extract(epoch FROM at)::bigint %% 3600 = 0
        """,
        fleet.start,
        fleet.end,
        POOLS,
        fleet.end - timedelta(days=SAMPLES_KEPT),
    )


def usage(database: Database, fleet: Fleet) -> None:
    """Five-minute usage of every engine, marked to be rolled up."""
    _run(
        database,
        """
        INSERT INTO usage (bucket, host, engine, pool, prompt_tokens, cached_prompt_tokens, generation_tokens,
                           cache_queries, cache_hits, partial)
        SELECT b, 'gpu-' || h, 'vllm-' || e, 'pool-' || (h %% %s + 1), 90000, 50000, 9000, 90000, 50000, false
        FROM generate_series(%s::timestamptz, %s::timestamptz - interval '5 min', interval '5 min') b,
             generate_series(1, %s::int) h, generate_series(1, %s::int) e
        """,
        POOLS,
        fleet.start,
        fleet.end,
        fleet.hosts,
        ENGINES,
    )
    _run(database, "INSERT INTO usage_mark SELECT DISTINCT bucket FROM usage")


def recent(database: Database, fleet: Fleet, days: int = 3) -> None:
    """The newest figures of every engine and GPU, once a minute."""
    starts = [fleet.end - timedelta(days=day) for day in range(1, days + 1)]
    ensure(database, {part_of(parent, day) for parent in ("engine_figure", "gpu_figure") for day in starts})
    for statement in (_ENGINES, _GPUS):
        _run(database, statement, min(starts), fleet.end, fleet.hosts, ENGINES)


_ENGINES = """
    INSERT INTO engine_figure
    SELECT at, 'gpu-' || h, 'vllm-' || e, 'pool-1', 'chat', 'ready', 1, random() * 20, random() * 5, random(), random(),
           random() * 9000, random() * 5000, random() * 900, random() * 9000, 0, 0, random(), random(), random(),
           random() / 20, random() / 20, random() / 20, random() * 9, random() * 9, random()
    FROM generate_series(%s::timestamptz, %s::timestamptz - interval '1 s', interval '1 min') at,
         generate_series(1, %s::int) h, generate_series(1, %s::int) e
"""
_GPUS = """
    INSERT INTO gpu_figure
    SELECT at, 'gpu-' || h, 'GPU-' || h || '-' || g, g, 'vllm-' || g, 'pool-1', 'chat', true, random(), 7e10, 8e10,
           random(), 300 + 400 * random(), 700, 40 + 30 * random(), 50, 1.9e9, random(), random(), random(), 1
    FROM generate_series(%s::timestamptz, %s::timestamptz - interval '1 s', interval '1 min') at,
         generate_series(1, %s::int) h, generate_series(1, %s::int) g
"""


def midnight(moment: datetime) -> datetime:
    """The beginning of its day."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def sizes(database: Database) -> Iterator[tuple[str, int]]:
    """Each kind of table with its bytes, parts and indexes included, the largest first."""
    with database.begin() as connection:
        rows = connection.exec_driver_sql(
            "SELECT coalesce(pg_partition_root(c.oid)::regclass::text, c.relname) AS name, "
            "sum(pg_total_relation_size(c.oid))::bigint AS bytes FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r' "
            "GROUP BY 1 ORDER BY 2 DESC"
        ).all()
    return ((str(row.name), int(row.bytes)) for row in rows)
