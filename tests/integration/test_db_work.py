"""Forgetting, working out anew and taking a period away, over the real database."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet
import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.model.history import METRICS, Label
from tidegate.model.reading import Gauge, Rank
from tidegate.runtime.errors import ConfigError, Permanent, Transient
from tidegate.store.backfill import Backfill
from tidegate.store.database import Database
from tidegate.store.export import Export, rows_of
from tidegate.store.history import StoredHistory
from tidegate.store.store import Store

MINUTE = timedelta(minutes=1)
ROLLED = "SELECT sum(x) FROM rollup_5m, unnest(increase) AS x WHERE x <> 'NaN'"
TOKENS, QUEUE = METRICS["generation_tokens"], METRICS["queue_depth"]


@pytest.fixture
def filled(database: Database, now: datetime) -> Store:
    """Five hours of a report a minute; of the older ones chunks and rollups have been made."""
    store = Store(database)
    claim(store.hosts, now, "vllm-0")
    for number in range(300):
        at = now - (300 - number) * MINUTE
        counted = engine(at, generation_tokens=10.0 * number)
        seen = reading(at, replace(counted, gauges={(Gauge.QUEUE_DEPTH, Rank("0")): float(number % 7)}))
        store.reports.accept(HOST, *batch(seen, first=number + 1), at)
    while store.compaction.compact(now + timedelta(hours=3)).windows:
        pass
    store.usage.roll_up(now)
    return store


def exported(*arguments: str) -> list[dict[str, str]]:
    done = CliRunner().invoke(app, ["db", "export", "-", *arguments])
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_every_sample_of_a_period_is_exported(filled: Store, dsn: str, now: datetime, tmp_path: Path) -> None:
    """From the chunks and from the reports that are not compacted yet, each once; as CSV and as Parquet the same."""
    span = ["--since", (now - 300 * MINUTE).isoformat(), "--until", now.isoformat(), "--dsn", dsn]
    rows = exported(*span, "--metric", "generation_tokens")
    assert [float(row["value"]) for row in rows] == [10.0 * number for number in range(300)]
    assert {(row["host"], row["engine"], row["metric"]) for row in rows} == {(HOST, "vllm-0", "generation_tokens")}

    path = tmp_path / "all.parquet"
    done = CliRunner().invoke(app, ["db", "export", str(path), *span])
    assert done.exit_code == 0, done.output
    table = pyarrow.parquet.read_table(path)
    assert f"{table.num_rows} rows" in done.output
    tokens = table.filter(pyarrow.compute.equal(table["metric"].cast("string"), "generation_tokens"))
    assert tokens["value"].to_pylist() == [10.0 * number for number in range(300)]
    assert tokens["at"].to_pylist()[0] == now - 300 * MINUTE


def test_steps_are_means_and_increases(filled: Store, dsn: str, now: datetime) -> None:
    span = ["--since", (now - 60 * MINUTE).isoformat(), "--until", now.isoformat(), "--dsn", dsn, "--step", "600"]
    tokens = exported(*span, "--metric", "tidegate_generation_tokens_total", "--host", HOST)
    assert [float(row["value"]) for row in tokens] == [100.0] * 6
    queue = exported(*span, "--metric", "queue_depth")
    assert all(0 <= float(row["value"]) <= 6 for row in queue)
    assert exported(*span, "--metric", "queue_depth", "--host", "another") == []


def test_an_export_holds_a_bounded_piece_at_a_time(filled: Store, now: datetime) -> None:
    """A metric and eight hours of one host, however long the period is."""
    wanted = Export(now - timedelta(days=3), now, metrics=(TOKENS, QUEUE), hosts=(HOST,))
    pieces = list(rows_of(StoredHistory(filled.database), wanted))
    assert sum(len(rows.at) for _, rows in pieces) == 600
    assert max(max(rows.at) - min(rows.at) for _, rows in pieces if rows.at) < timedelta(hours=8)
    assert [share for share, _ in pieces] == sorted(share for share, _ in pieces)
    assert all(set(rows.labels[Label.HOST]) <= {HOST} for _, rows in pieces)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.xlsx", "--since", "2026-11-25"], "end the name in .parquet or .csv"),
        (["x.csv", "--since", "yesterday"], "is no time: write 2026-11-25"),
        (["x.csv", "--since", "2026-11-25", "--until", "2026-11-24"], "--since must be before --until"),
        (["x.csv", "--since", "2026-11-25", "--metric", "queue_dept"], "did you mean queue_depth"),
        (["x.csv", "--since", "2026-11-25", "--step", "1.5"], "write a whole number of seconds"),
        (["/tmp", "--since", "2026-11-25"], "end the name in .parquet or .csv"),
    ],
)
def test_what_cannot_be_exported_is_said(dsn: str, arguments: list[str], said: str) -> None:
    outcome = CliRunner().invoke(app, ["db", "export", *arguments, "--dsn", dsn])
    assert isinstance(outcome.exception, ConfigError)
    assert said in str(outcome.exception)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_file_that_cannot_be_written_is_said_and_not_begun(dsn: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / "missing" / name
    span = ["--since", "2026-11-25", "--until", "2026-11-26", "--metric", "running"]
    outcome = CliRunner().invoke(app, ["db", "export", str(path), *span, "--dsn", dsn])
    assert isinstance(outcome.exception, Permanent)
    assert "cannot be written" in str(outcome.exception)


def test_an_export_that_fails_leaves_no_file_that_looks_whole(
    filled: Store, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Transient("the database is away")

    monkeypatch.setattr(StoredHistory, "query", away)
    span = ["--since", "2026-11-25", "--until", "2026-11-26", "--metric", "generation_tokens"]
    outcome = CliRunner().invoke(app, ["db", "export", str(tmp_path / "x.csv"), *span, "--dsn", dsn])
    assert isinstance(outcome.exception, Transient)
    assert list(tmp_path.iterdir()) == []


def test_what_is_made_of_samples_is_worked_out_anew(filled: Store, dsn: str, now: datetime) -> None:
    """Spoilt by hand, mended by the command; begun and not ended, it goes on from its marks."""
    with filled.database.begin() as connection:
        before = connection.exec_driver_sql("SELECT sum(generation_tokens) FROM usage").scalar_one()
        rolled = connection.exec_driver_sql(ROLLED).scalar_one()
        assert rolled > 0
        connection.exec_driver_sql("UPDATE usage SET generation_tokens = 0")
        connection.exec_driver_sql("DELETE FROM rollup_5m")
    work = Backfill(filled.database)
    since = now - 300 * MINUTE
    assert work.mark(since, now, now).windows > 0
    assert CliRunner().invoke(app, ["db", "backfill", "--resume", "--dsn", dsn]).exit_code == 0
    with filled.database.begin() as connection:
        assert connection.exec_driver_sql("SELECT sum(generation_tokens) FROM usage").scalar_one() == before
        assert connection.exec_driver_sql(ROLLED).scalar_one() == rolled
    again = CliRunner().invoke(app, ["db", "backfill", "--since", since.isoformat(), "--dsn", dsn])
    assert "worked out anew" in again.output
    for arguments in ([], ["--resume", "--since", "2026-11-25"]):
        outcome = CliRunner().invoke(app, ["db", "backfill", *arguments, "--dsn", dsn])
        assert isinstance(outcome.exception, ConfigError)


def test_pruning_by_hand_follows_the_configuration(filled: Store, dsn: str, tmp_path: Path) -> None:
    """What the test's moment left is long over by the machine's clock."""
    config = tmp_path / "tidegate.toml"
    config.write_text(f'[controller]\ndatabase = "{dsn}"\nretention_days = 1\nhistory_days = 31\n')
    done = CliRunner().invoke(app, ["db", "prune", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "parts whole" in done.output
