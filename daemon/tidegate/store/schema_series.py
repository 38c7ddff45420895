"""The tables of the time series behind the reports: what a report's columns are, and where their samples lie.

    series          one row a series, for as long as anything stored speaks of it; `block` says which block it is in
    series_block    up to 64 series of one host and one name: what is packed, written and read together
    series_window   a host's two hours: what was made of them, and whether reports came since
    chunk           every sample of a block in a window, packed (store/chunk_codec.py), reasons of missing ones included
    chunk_clock     the moments of these samples, once for all blocks of the host (store/chunk_codec.py)
    rollup_1m/5m/1h the same window in buckets, as arrays that SQL can unnest

A window is two hours long and begins at an even hour, UTC. When a day is over, four windows (00, 08 and 16 h) are
merged into one row, `cold`. A row of either kind says by itself what it covers: readers ask for both and care for
neither, but for the span that a row may reach beyond its `start`: `COLD`. Reports that a chunk holds already stay in
`report` for some hours more; where both have a sample of one host and moment it is the same one.

Arrays of a rollup hold `buckets` values for the first series of `series`, then as many for the second, and so on;
bucket number i begins at `start` + i * (1, 5 or 60 minutes). A NaN says that there is no figure; a count of zero says
so too. Which arrays there are depends on the block's kind, the others are NULL:

    gauge    "sum", "count" (of the samples that are numbers), minimum, maximum: float32
    counter  increase (resets taken out; an increase between two samples belongs to the later one's bucket; NaN when
             the bucket has no sample with a sample before it): float32, "last" (the total): float64
    moment   "last" alone: a time in Unix seconds, of which sums say nothing

Every parent is split by `cold`, then by time (store/partitions.py): a part is dropped whole when it is too old.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL

from tidegate.store.schema import metadata

WINDOW = timedelta(hours=2)
"""What is compacted at a time."""
COLD = timedelta(hours=8)
"""The longest span of a row."""
MOST_IN_BLOCK = 64

_Moment = DateTime(timezone=True)
_SPLIT = "LIST (cold)"

series_block = Table(
    "series_block",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("host", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    UniqueConstraint("host", "scope", "name", "number"),
)
"""`kind`: gauge, counter or moment, by the name (store/series.py). `number` counts the blocks of one host and name."""

series = Table(
    "series",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("block", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("rank", Text, nullable=False),
    Column("le", Text, nullable=False),
    Column("first_seen", _Moment, nullable=False),
    Column("last_seen", _Moment, nullable=False),
    UniqueConstraint("name", "host", "scope", "owner", "rank", "le"),
    Index(None, "host"),
    Index(None, "block"),
)
"""The words of a `SeriesKey` (model/series.py). `last_seen` is as coarse as a window."""

series_window = Table(
    "series_window",
    metadata,
    Column("host", Text, primary_key=True),
    Column("start", _Moment, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("not_before", _Moment, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("cold", Boolean, nullable=False),
    Index("series_window_due_idx", "not_before", postgresql_where=text("done < version")),
    Index("series_window_warm_idx", "start", postgresql_where=text("NOT cold")),
)
"""`version` grows when reports come; `done` is the version that the chunks were made of, 0 when there are none yet.

What has to be done: done < version and `not_before` has come. `samples`: reports in the window's chunks.
"""

chunk = Table(
    "chunk",
    metadata,
    Column("cold", Boolean, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("start", _Moment, primary_key=True),
    Column("series", ARRAY(Integer), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    postgresql_partition_by=_SPLIT,
)

chunk_clock = Table(
    "chunk_clock",
    metadata,
    Column("cold", Boolean, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("start", _Moment, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    postgresql_partition_by=_SPLIT,
)


def _rollup(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("cold", Boolean, primary_key=True),
        Column("block", Integer, primary_key=True),
        Column("start", _Moment, primary_key=True),
        Column("buckets", SmallInteger, nullable=False),
        Column("series", ARRAY(Integer), nullable=False),
        Column("sum", ARRAY(REAL)),
        Column("count", ARRAY(SmallInteger)),
        Column("minimum", ARRAY(REAL)),
        Column("maximum", ARRAY(REAL)),
        Column("increase", ARRAY(REAL)),
        Column("last", ARRAY(Double)),
        postgresql_partition_by=_SPLIT,
    )


rollup_1m = _rollup("rollup_1m")
"""Of a named few series, for a short while."""
rollup_5m = _rollup("rollup_5m")
rollup_1h = _rollup("rollup_1h")

STEPS = {rollup_1m: timedelta(minutes=1), rollup_5m: timedelta(minutes=5), rollup_1h: timedelta(hours=1)}
"""How wide a bucket of each rollup is."""
SPLIT = (chunk, chunk_clock, rollup_1m, rollup_5m, rollup_1h)
"""The tables that are split by `cold` and time."""
