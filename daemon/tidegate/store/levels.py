"""Which parts of the tables that are split by time are too old, level by level."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from tidegate.model.records import Levels
from tidegate.store.partitions import Part, parts

_SAMPLES = frozenset({"chunk_hot", "chunk_cold", "chunk_clock_hot", "chunk_clock_cold"})
_HOT = frozenset({"chunk_hot", "chunk_clock_hot", "rollup_5m_hot", "rollup_1h_hot"})
_TABLES = _SAMPLES | _HOT | {"report", "rollup_1m_hot", "rollup_5m_cold", "rollup_1h_cold"}
_EMPTIES = timedelta(hours=12)
"""By so long after its end a part has usually been emptied into the cold ones."""

_UNSETTLED = text(
    "SELECT EXISTS (SELECT FROM (SELECT host, date_bin('2 hours', at, TIMESTAMPTZ '2000-01-01 00:00+00') AS start, "
    "count(*) AS reports FROM report WHERE at >= :start AND at < :end GROUP BY 1, 2) AS r "
    "LEFT JOIN series_window AS w USING (host, start) "
    "WHERE w.host IS NULL OR w.done < w.version OR w.samples < r.reports) "
    "OR EXISTS (SELECT FROM dirty_bucket WHERE bucket >= :start - interval '5 minutes' AND bucket < :end)"
)
"""Counted, not believed: a report that slipped past its window's compaction keeps its part until it is in a chunk."""
_MARK = text(
    "UPDATE series_window AS w SET version = version + 1 FROM (SELECT host, "
    "date_bin('2 hours', at, TIMESTAMPTZ '2000-01-01 00:00+00') AS start, count(*) AS reports FROM report "
    "WHERE at >= :start AND at < :end GROUP BY 1, 2) AS r "
    "WHERE w.host = r.host AND w.start = r.start AND w.done = w.version AND w.samples < r.reports"
)


def old_parts(
    connection: Connection, now: datetime, retention: timedelta, history: timedelta, levels: Levels
) -> list[Part]:
    """What may be dropped, oldest first within a table; windows that turn out to lack reports are marked again."""
    found = []
    for part in parts(connection, _TABLES):
        if part.parent == "report":
            gone = part.end <= now - retention
            found += [part] if gone or (part.end <= now - levels.reports and _settled(connection, part)) else []
        elif part.end <= now - _kept(part.parent, retention, history, levels) or _emptied(connection, part, now):
            found.append(part)
    return found


def _kept(parent: str, retention: timedelta, history: timedelta, levels: Levels) -> timedelta:
    if parent in _SAMPLES:
        return retention
    if parent.startswith("rollup_1m"):
        return levels.minutes
    return levels.rollups if parent.startswith("rollup_5m") else history


def _settled(connection: Connection, part: Part) -> bool:
    """True when every report of the part is in a chunk, and usage has been made of it."""
    span = {"start": part.start, "end": part.end}
    if not connection.execute(_UNSETTLED, span).scalar_one():
        return True
    connection.execute(_MARK, span)
    return False


def _emptied(connection: Connection, part: Part, now: datetime) -> bool:
    """True for a part of the hot layer whose rows have all gone into the cold one."""
    if part.parent not in _HOT or part.end > now - _EMPTIES:
        return False
    # A part's name is our own: a prefix and a date.
    return not connection.execute(text(f"SELECT EXISTS (SELECT FROM {part.name})")).scalar_one()  # noqa: S608
