"""Reports that no controller has acknowledged, on disk and bounded: an outage loses nothing up to the bound.

SQLite in WAL mode. An append is synchronous=FULL: with NORMAL a power cut would take back reports that are nowhere
else, and one fsync a collection costs nothing. An acknowledgement is NORMAL: one that a power cut takes back only
sends a report again, which the controller knows by (host, boot, sequence).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.agent.spool_file import SpoolFile, pragma, used_bytes
from tidegate.model.snapshot import SpoolState
from tidegate.wire import Layout, Range, Report

_AFLOAT = 256
"""Reports kept in memory while the disk takes none: over an hour at the usual interval."""
_SPARE_PAGES = 1000
"""Free pages that a file keeps for the next outage; more are given back."""
_BATCH_BYTES = 3 * 512 * 1024
"""Of vectors: 2 MiB as base64."""
_BATCH_LAYOUTS = 32


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """How much is kept: reports no older than `age`, a file whose content is no larger than `size_bytes`."""

    age: timedelta = timedelta(hours=72)
    size_bytes: int = 512 * 1024 * 1024


class Spool:
    """The spool of one agent; every method is safe from any thread and bears a full or damaged disk."""

    def __init__(self, path: Path, limits: SpoolLimits) -> None:
        self._file, self._limits = SpoolFile(path), limits
        self._lock = threading.Lock()
        self._afloat: deque[tuple[Report, Layout]] = deque()
        self._unsaid_drops = 0
        self._last_layout = ""
        self._state = SpoolState()
        with self._lock:
            self._file.attempt(self._read_state)

    def append(self, report: Report, layout: Layout, now: datetime) -> None:
        """Keep a report until it is acknowledged; in memory while the disk takes none. What has no room is counted."""
        with self._lock:
            self._afloat.append((report, layout))
            self._last_layout = layout.id
            self._file.attempt(lambda base: self._land(base, now))
            while len(self._afloat) > _AFLOAT:
                self._afloat.popleft()
                self._unsaid_drops += 1

    def newest(self, limit: int) -> list[Report]:
        """The last reports that wait, the newest first."""
        with self._lock:
            afloat = [report for report, _ in reversed(self._afloat)][:limit]
            sql = "SELECT boot, sequence, at, layout, vector FROM report ORDER BY place DESC LIMIT ?"
            return afloat + (self._file.attempt(lambda base: _reports(base.execute(sql, (limit - len(afloat),)))) or [])

    def backlog(self, limit: int, skip: Collection[tuple[str, int]] = ()) -> list[Report]:
        """The first reports that wait, the oldest first, without those in `skip` (boot, sequence).

        No more than a batch carries: 2 MiB of values and 32 layouts, the first report whatever its size.
        """
        with self._lock:
            sql = "SELECT boot, sequence, at, layout, vector FROM report ORDER BY place LIMIT ?"
            found = self._file.attempt(lambda base: _reports(base.execute(sql, (limit + len(skip),)))) or []
            found += [report for report, _ in self._afloat]
        return _fitting([report for report in found if (report.boot_id, report.sequence) not in skip][:limit])

    def layouts(self, ids: Collection[str]) -> list[Layout]:
        """The layouts of waiting reports by id; those that are not known are left out."""
        with self._lock:
            afloat = {layout.id: layout for _, layout in self._afloat if layout.id in ids}
            marks = ",".join("?" * len(ids))
            sql = f"SELECT id, series FROM layout WHERE id IN ({marks})"  # noqa: S608 - question marks only
            rows = self._file.attempt(lambda base: base.execute(sql, tuple(ids)).fetchall()) or []
        return list(({name: _layout(name, series) for name, series in rows} | afloat).values())

    def acknowledge(self, ranges: Iterable[Range]) -> None:
        """Forget what a controller has stored."""
        wanted = tuple(ranges)
        with self._lock:
            self._afloat = deque(pair for pair in self._afloat if not _covered(pair[0], wanted))
            self._file.attempt(lambda base: self._forget(base, wanted))

    def give_up(self, reports: Sequence[Report]) -> None:
        """Forget reports that a controller refuses for good; they count as dropped."""
        with self._lock:
            self._unsaid_drops += len(reports)
        self.acknowledge(Range(boot_id=one.boot_id, first=one.sequence, last=one.sequence) for one in reports)

    def state(self) -> SpoolState:
        """How much waits, and how much was ever dropped."""
        with self._lock:
            oldest = self._state.oldest_at or (_moment(self._afloat[0][0].at) if self._afloat else None)
            return replace(
                self._state,
                reports=self._state.reports + len(self._afloat),
                oldest_at=oldest,
                dropped=self._state.dropped + self._unsaid_drops,
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _land(self, base: sqlite3.Connection, now: datetime) -> None:
        """Write what is afloat and keep to the limits, in one transaction that is on disk when this returns."""
        base.execute("PRAGMA synchronous = FULL")
        base.execute("BEGIN IMMEDIATE")
        for report, layout in self._afloat:
            series = zlib.compress(json.dumps(layout.series, separators=(",", ":")).encode(), 1)
            base.execute("INSERT OR IGNORE INTO layout VALUES (?, ?)", (layout.id, series))
            base.execute(
                "INSERT OR IGNORE INTO report (boot, sequence, at, layout, vector) VALUES (?, ?, ?, ?, ?)",
                (report.boot_id, report.sequence, report.at, report.layout, report.values),
            )
        self._finish(base, _trim(base, self._limits, now))
        self._afloat.clear()

    def _forget(self, base: sqlite3.Connection, ranges: Sequence[Range]) -> None:
        base.execute("PRAGMA synchronous = NORMAL")
        base.execute("BEGIN IMMEDIATE")
        for one in ranges:
            base.execute(
                "DELETE FROM report WHERE boot = ? AND sequence BETWEEN ? AND ?", (one.boot_id, one.first, one.last)
            )
        self._finish(base, 0)
        if pragma(base, "freelist_count") > _SPARE_PAGES:
            base.execute(f"PRAGMA incremental_vacuum({_SPARE_PAGES})").fetchall()

    def _finish(self, base: sqlite3.Connection, dropped: int) -> None:
        dropped += self._unsaid_drops
        if dropped:
            base.execute(
                "INSERT INTO tally VALUES ('dropped', ?) "
                "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
                (dropped,),
            )
        base.execute(
            "DELETE FROM layout WHERE id <> ? AND NOT EXISTS (SELECT 1 FROM report WHERE report.layout = layout.id)",
            (self._last_layout,),
        )
        base.execute("COMMIT")
        self._unsaid_drops = 0
        self._read_state(base)

    def _read_state(self, base: sqlite3.Connection) -> None:
        count, oldest = base.execute("SELECT count(*), min(at) FROM report").fetchone()
        dropped = base.execute("SELECT count FROM tally WHERE name = 'dropped'").fetchone()
        self._state = SpoolState(
            count, used_bytes(base), _moment(oldest) if oldest is not None else None, dropped[0] if dropped else 0
        )


def _trim(base: sqlite3.Connection, limits: SpoolLimits, now: datetime) -> int:
    """Delete what is beyond the limits, the oldest first and never the newest; returns how many."""
    cutoff = (now - limits.age).timestamp()
    newest = "(SELECT max(place) FROM report)"
    dropped = base.execute(f"DELETE FROM report WHERE at < ? AND place < {newest}", (cutoff,)).rowcount  # noqa: S608
    while used_bytes(base) > limits.size_bytes:
        # In steps of a percent, so that a lowered limit does not take a statement a report.
        share = 1 + base.execute("SELECT count(*) FROM report").fetchone()[0] // 100
        sql = (
            f"DELETE FROM report WHERE place < {newest} AND place IN (SELECT place FROM report ORDER BY place LIMIT ?)"  # noqa: S608
        )
        deleted = base.execute(sql, (share,)).rowcount
        if not deleted:
            break
        dropped += deleted
    return dropped


def _reports(rows: Iterable[tuple[str, int, float, str, bytes]]) -> list[Report]:
    return [
        Report(boot_id=boot, sequence=sequence, at=at, layout=layout, values=vector)
        for boot, sequence, at, layout, vector in rows
    ]


def _layout(name: str, series: bytes) -> Layout:
    return Layout(id=name, series=json.loads(zlib.decompress(series)))


def _fitting(reports: Sequence[Report]) -> list[Report]:
    """The first reports of which one batch may consist."""
    fitting: list[Report] = []
    size, layouts = 0, set[str]()
    for report in reports:
        size += len(report.values)
        layouts.add(report.layout)
        if fitting and (size > _BATCH_BYTES or len(layouts) > _BATCH_LAYOUTS):
            break
        fitting.append(report)
    return fitting


def _covered(report: Report, ranges: Sequence[Range]) -> bool:
    return any(one.boot_id == report.boot_id and one.first <= report.sequence <= one.last for one in ranges)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
