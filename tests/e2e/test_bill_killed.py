"""Kill -9 in the middle of an import: the earlier version stands, and the next import finds nothing in its way."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from fakes.bill_book import ALWAYS, Book
from fakes.bills import focus, focus_row

from tidegate.runtime.clock import SystemClock
from tidegate.store.bills import StoredBills
from tidegate.store.database import open_database

ROOT = Path(__file__).resolve().parents[2]
ROWS = 60_000
_IMPORT = """
import sys
from pathlib import Path
sys.path[:0] = [{daemon!r}, {tests!r}]
from fakes.bill_book import Book
from tidegate.runtime.clock import SystemClock
from tidegate.store.bills import StoredBills
from tidegate.store.database import open_database
Book(StoredBills(open_database(sys.argv[1])), Path("."), SystemClock()).file(Path(sys.argv[2]))
"""


def copying(dsn: str) -> bool:
    """Whether some of the charges of an import lie there already, unseen."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute("SELECT pg_relation_size('charge') > 1000000").fetchone()
    return bool(found and found[0])


def test_the_earlier_version_stands(dsn: str, tmp_path: Path) -> None:
    database = open_database(dsn)
    book = Book(StoredBills(database), tmp_path, SystemClock())
    book.text(focus(focus_row("1.00"), focus_row("2.00")), "first.csv")
    large = tmp_path / "large.csv"
    row = focus_row("0.01") + "\n"
    large.write_text(focus(focus_row("1.00"), focus_row("2.00")) + row * ROWS)
    code = _IMPORT.format(daemon=str(ROOT / "daemon"), tests=str(ROOT / "tests"))
    child = subprocess.Popen([sys.executable, "-c", code, dsn, str(large)], cwd=tmp_path)
    deadline = time.monotonic() + 50
    while not copying(dsn):
        assert child.poll() is None, "the import ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert [(each.number, str(each.sums.totals[0].billed)) for each in book.active] == [(1, "3.00")]
    assert len(list(book.store.charges(*ALWAYS))) == 2
    book.text(focus(focus_row("1.00"), focus_row("2.00"), focus_row("0.50")), "next.csv")
    assert [str(each.sums.totals[0].billed) for each in book.active] == ["3.50"]
    assert book.active[0].imported_at <= datetime.now(UTC)
    database.close()
