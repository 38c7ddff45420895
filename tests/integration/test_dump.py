"""Everything in one file and back: the same rows, counted on; what is not empty, damaged or newer is refused whole."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading
from sqlalchemy import JSON, Column, Connection, Table, func, insert, select
from sqlalchemy.types import ARRAY
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.model.history import METRICS, Aggregate, Question
from tidegate.model.leadership import Candidate
from tidegate.runtime.errors import Permanent
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.dump import dump
from tidegate.store.dump_format import MAGIC
from tidegate.store.leadership import StoredLeadership
from tidegate.store.partitions import WIDTHS, part_of
from tidegate.store.restore import restore
from tidegate.store.schema import metadata
from tidegate.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
HOUR = timedelta(hours=1)


@pytest.fixture
def filled(database: Database, now: datetime) -> Database:
    """Reports of two days with their usage, a host, a term."""
    store = Store(database)
    claim(store.hosts, now, "vllm-0")
    for number in range(200):
        at = now - timedelta(hours=number // 4)
        store.reports.accept(
            HOST, *batch(reading(at, engine(at, generation_tokens=10.0 * number)), first=number + 1), now
        )
    store.usage.roll_up(now)
    leaderships = StoredLeadership(database)
    leaderships.claim(Candidate("one/1", "one:9092"), None, timedelta(minutes=5), now)
    leaderships.close()
    return database


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Database]:
    found = open_database(empty_dsn)
    yield found
    found.close()


def rows(database: Database) -> dict[str, list[str]]:
    """Every row of every table of ours, as text."""
    with database.begin() as connection:
        names = [name for name in migrate.tables_of_ours(connection) if name != "lease"]
        return {name: sorted(connection.exec_driver_sql(f"SELECT t::text FROM {name} t").scalars()) for name in names}


def test_what_was_dumped_is_there_again(filled: Database, empty: Database, tmp_path: Path, now: datetime) -> None:
    path = tmp_path / "all.dump"
    done = dump(filled, path, now)
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]
    before = rows(filled)
    assert done.rows == sum(map(len, before.values())) > 200

    again = restore(empty, path)
    assert again == done
    assert rows(empty) == before
    assert migrate.differences(empty) == []
    # It works on: numbers go on after the highest, parts are where late reports find them, nobody leads.
    leaderships = StoredLeadership(empty)
    assert leaderships.claim(Candidate("two/2", "two:9092"), None, timedelta(minutes=5), now).epoch == 2
    leaderships.close()
    store = Store(empty)
    late = reading(now - timedelta(hours=1, seconds=7), engine(now, generation_tokens=1.0))
    assert store.reports.accept(HOST, *batch(late, first=1000), now).stored == 1


def test_every_table_comes_back_and_questions_have_the_same_answers(
    filled: Database, empty: Database, tmp_path: Path, now: datetime
) -> None:
    """A row of the extremes of its types in each table that has none; chunks, rollups, costs and bills among them."""
    store = Store(filled)
    while store.compaction.compact(now + timedelta(hours=3)).windows:
        pass
    store.figures.roll_up(now)
    with filled.begin() as connection:
        present = {name for name in migrate.tables_of_ours(connection) if name != "lease"}
        for table in metadata.sorted_tables:
            if connection.execute(select(func.count()).select_from(table)).scalar_one() == 0:
                make_part(connection, table, now)
                connection.execute(insert(table).values(extremes(table, now)))
    before = rows(filled)
    assert [name for name in present if not before[name]] == []

    path = tmp_path / "all.dump"
    dump(filled, path, now)
    restore(empty, path)
    assert rows(empty) == before
    for step, aggregate in ((None, Aggregate.AVG), (timedelta(minutes=5), Aggregate.INCREASE), (HOUR, Aggregate.LAST)):
        question = Question(METRICS["generation_tokens"], now - timedelta(days=2), now, step, aggregate)
        answer = Store(filled).histories.query(question)
        assert [line.values for line in answer.lines] != []
        assert Store(empty).histories.query(question) == answer


def make_part(connection: Connection, table: Table, now: datetime) -> None:
    """Of a table that is split, the part that a row of now lies in."""
    for name in (table.name, f"{table.name}_hot"):
        if name in WIDTHS:
            part = part_of(name, now)
            connection.exec_driver_sql(
                f"CREATE TABLE IF NOT EXISTS {part.name} PARTITION OF {name} "
                f"FOR VALUES FROM ('{part.start.isoformat()}') TO ('{part.end.isoformat()}')"
            )


def extremes(table: Table, now: datetime) -> dict[str, object]:
    """A value of each column that is not made by the database."""
    return {column.name: extreme(column, now) for column in table.columns if column.identity is None}


def extreme(column: Column[Any], now: datetime) -> object:
    kind = column.type
    if isinstance(kind, ARRAY):
        inner = kind.item_type.python_type
        return [math.nan, -0.0, 1e30] if inner is float else [1, -2] if inner is int else ["a", "", 'quo"te\\']
    values: dict[type, object] = {
        bool: False, int: 1, float: -0.0, Decimal: Decimal("-123456789.000000001"), datetime: now, date: now.date(),
        bytes: b"\x00\xff\\", str: "t\tab, \u6f6e, back\\slash", dict: {"a": [None, 1.5, "\u6f6e"]},
    }  # fmt: skip
    return values[dict if isinstance(kind, JSON) else kind.python_type]


def test_a_database_that_is_not_empty_is_left_alone(filled: Database, tmp_path: Path, now: datetime) -> None:
    path = tmp_path / "all.dump"
    dump(filled, path, now)
    before = rows(filled)
    with pytest.raises(Permanent, match="is not empty: restore into a new one"):
        restore(filled, path)
    assert rows(filled) == before


@pytest.mark.parametrize("harm", ["cut", "flipped", "no dump"])
def test_a_damaged_dump_leaves_nothing_behind(
    filled: Database, empty: Database, tmp_path: Path, now: datetime, harm: str
) -> None:
    path = tmp_path / "all.dump"
    dump(filled, path, now)
    content = bytearray(path.read_bytes())
    if harm == "cut":
        content = content[: len(content) // 2]
    elif harm == "flipped":
        content[len(content) // 2] ^= 0xFF
    else:
        content = bytearray(b"PGDMP" + content[len(MAGIC) :])
    path.write_bytes(content)
    with pytest.raises(Permanent, match=r"take another dump|is no dump"):
        restore(empty, path)
    with empty.begin() as connection:
        assert migrate.tables_of_ours(connection) == []


def test_a_dump_of_an_older_revision_is_brought_up_to_date(
    empty_dsn: str, filled: Database, tmp_path: Path, now: datetime
) -> None:
    """Made by a version before ours, restored by us."""
    old = open_database(empty_dsn)
    migrate.upgrade(old, "0004")
    with old.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO host (name, token_hash, enrolled_at) VALUES ('gpu-1', 'hash', '2026-01-01T00:00:00Z')"
        )
    path = tmp_path / "old.dump"
    assert dump(old, path, now).revision == "0004"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    restore(old, path)
    migrate.require_current(old)
    assert rows(old)["host"] == rows(old)["host"] != []
    old.close()


def test_the_commands_say_what_they_did(dsn: str, filled: Database, empty_dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "all.dump"
    runner = CliRunner()
    done = runner.invoke(app, ["db", "dump", str(path), "--dsn", dsn])
    assert done.exit_code == 0, done.output
    assert "rows of" in done.output
    again = subprocess.run(
        [sys.executable, "-m", "tidegate", "db", "dump", str(path), "--dsn", dsn],
        check=False, capture_output=True, text=True, cwd=ROOT / "daemon",
    )  # fmt: skip
    assert again.returncode == 78
    assert "is there already" in again.stderr
    done = runner.invoke(app, ["db", "restore", str(path), "--dsn", empty_dsn])
    assert done.exit_code == 0, done.output
    assert "restored from revision" in done.output


def test_a_database_without_tables_cannot_be_dumped(empty: Database, tmp_path: Path, now: datetime) -> None:
    with pytest.raises(Permanent, match="has no tables yet"):
        dump(empty, tmp_path / "none.dump", now)
    assert list(tmp_path.iterdir()) == []
