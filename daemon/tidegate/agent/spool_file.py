"""The spool's SQLite file: opened when needed, given up on a fault and tried again, set aside when it is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog

_log = structlog.get_logger()
_T = TypeVar("_T")

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA journal_size_limit = 4194304;
PRAGMA busy_timeout = 2000;
CREATE TABLE IF NOT EXISTS layout (id TEXT PRIMARY KEY, series BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS report (
  place INTEGER PRIMARY KEY, boot TEXT NOT NULL, sequence INTEGER NOT NULL, at REAL NOT NULL, layout TEXT NOT NULL,
  vector BLOB NOT NULL, UNIQUE (boot, sequence));
CREATE INDEX IF NOT EXISTS report_layout ON report (layout);
CREATE INDEX IF NOT EXISTS report_at ON report (at);
CREATE TABLE IF NOT EXISTS tally (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""


class SpoolFile:
    """One file of reports, their layouts and a tally. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base: sqlite3.Connection | None = None
        self._error = ""

    def attempt(self, work: Callable[[sqlite3.Connection], _T]) -> _T | None:
        """Do `work` on the open file; None when the disk does not let us (said once, tried again next time)."""
        for _ in range(2):
            try:
                result = work(self._open())
            except sqlite3.Error as error:
                self.close()
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE and self._set_aside(error):
                    continue
                if str(error) != self._error:
                    self._error = str(error)
                    _log.error("spool does not work", path=str(self._path), error=self._error)
                return None
            if self._error:
                self._error = ""
                _log.info("spool works again", path=str(self._path))
            return result
        return None

    def _open(self) -> sqlite3.Connection:
        if self._base is None:
            self._base = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._base.executescript(_SCHEMA)
        return self._base

    def close(self) -> None:
        """Close the file; the next attempt opens it again."""
        if self._base is not None:
            with suppress(sqlite3.Error):
                self._base.close()
            self._base = None

    def _set_aside(self, error: sqlite3.Error) -> bool:
        """Move a damaged file out of the way; only the last one is kept."""
        aside = self._path.with_name(self._path.name + ".damaged")
        try:
            for ending in ("", "-wal", "-shm"):
                source = Path(f"{self._path}{ending}")
                if source.exists():
                    source.replace(f"{aside}{ending}")
        except OSError:
            return False
        _log.error(
            "spool damaged, a new one begins",
            set_aside=str(aside),
            error=str(error),
            lost="the reports that waited in it",
        )
        return True


def used_bytes(base: sqlite3.Connection) -> int:
    """How much of the file holds something, in bytes."""
    pages = pragma(base, "page_count") - pragma(base, "freelist_count")
    return pages * pragma(base, "page_size")


def pragma(base: sqlite3.Connection, name: str) -> int:
    """A pragma that is a number."""
    return int(base.execute(f"PRAGMA {name}").fetchone()[0])
