"""The connection, the migrations and `tidegate db` on a real Postgres, and how each explains what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from fakes.store_batches import HOST, batch, engine, reading
from sqlalchemy import text
from typer.testing import CliRunner

from tidegate.cli.db import app
from tidegate.model.leadership import Candidate
from tidegate.model.overview import JobOverview
from tidegate.runtime.errors import ConfigError, Permanent, Transient
from tidegate.store import migrate
from tidegate.store.database import Database, open_database, place_of
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.leadership import StoredLeadership
from tidegate.store.store import Store

SECRET = "geheim-17"
SOON = timedelta(milliseconds=50)


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Database]:
    database = open_database(empty_dsn)
    yield database
    database.close()


# The connection


@pytest.mark.parametrize(
    ("dsn", "kind", "words"),
    [
        (f"postgresql://u:{SECRET}@127.0.0.1:1/x", Transient, "127.0.0.1/x does not answer"),
        (f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/x", Transient, "127.0.0.1/x does not answer"),
        (f"host=/nowhere user=u password={SECRET} dbname=x", Transient, "/nowhere/x does not answer"),
        (f"postgresql://u:{SECRET}@no-such-host.invalid/x", Transient, "no-such-host.invalid/x does not answer"),
        (f"postgresql://u:{SECRET}%zz@h/x", Permanent, "cannot be read"),
        (f"mysql {SECRET}", Permanent, "cannot be read"),
    ],
)
def test_a_wrong_address_is_one_line_without_the_password(dsn: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        open_database(dsn).ping()
    said = str(caught.value)
    assert words in said
    assert SECRET not in said
    assert "\n" not in said
    assert not isinstance(caught.value, Permanent) or caught.value.__cause__ is None


def test_a_database_or_a_role_that_does_not_exist_is_for_a_person(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(Permanent, match=r'database "nowhere" does not exist.*create the role and the database'):
        open_database(postgres.dsn.replace("/tidegate?", "/nowhere?")).ping()
    with pytest.raises(Permanent, match=r"refuses us .*run as the user"):
        open_database(postgres.dsn.replace("//tidegate@", "//stranger@")).ping()


def test_a_place_never_shows_secrets() -> None:
    assert str(place_of(f"postgresql://ada:{SECRET}@db.example/tide?sslmode=require")) == "db.example/tide"
    assert str(place_of(f"postgresql://ada:{SECRET}@")) == "localhost/ada"


def test_a_transaction_is_in_utc_with_limits_and_undone_on_an_error(database: Database) -> None:
    with database.begin() as connection:
        shown = {name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("TimeZone", "lock_timeout")}
        moment = connection.execute(text("SELECT '2026-11-25 12:00+02'::timestamptz")).scalar_one()
    assert shown == {"TimeZone": "UTC", "lock_timeout": "5s"}
    assert moment == datetime(2026, 11, 25, 10, tzinfo=UTC)
    assert moment.utcoffset() == timedelta()
    with suppress(ZeroDivisionError), database.begin() as connection:
        connection.execute(text("INSERT INTO memory VALUES (true, '{}')"))
        _ = 1 / 0
    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM memory")).scalar_one() == 0


def test_limits_leave_no_trace_in_a_session_that_a_pooler_hands_on(database: Database) -> None:
    with database.begin(statement=SOON):
        pass
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "0"


def test_what_takes_too_long_is_ended_and_tried_again(database: Database) -> None:
    slow = pytest.raises(Transient, match="statement timeout; it is tried again")
    with slow, database.begin(statement=SOON) as connection:
        connection.execute(text("SELECT pg_sleep(20)"))


def test_a_connection_that_was_cut_is_replaced(database: Database, dsn: str) -> None:
    """By a restart of the server, a pooler, an administrator."""
    database.ping()
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'")
    assert database.ping()


def test_a_transaction_in_one_message_is_whole_and_survives_a_cut_connection(database: Database, dsn: str) -> None:
    backend = "SELECT pg_backend_pid()"
    ((first,),) = database.at_once((backend,), {})
    with closing(psycopg.connect(dsn, autocommit=True)) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
    ((second,),) = database.at_once((backend,), {})
    assert second != first
    with pytest.raises(Permanent, match="division by zero"):
        database.at_once(("CREATE TABLE half (a int)", "SELECT 1 / 0"), {})
    rows = database.at_once(
        ("SELECT to_regclass('half'), %(word)s, current_setting('TimeZone')", "SET LOCAL jit = off"),
        {"word": "it's \\ {}"},
    )
    assert rows == [(None, "it's \\ {}", "UTC")]


def test_what_may_be_lost_for_a_moment_says_so_to_the_server_and_to_nobody_else(database: Database) -> None:
    query = "SELECT setting, source = 'session' FROM pg_settings WHERE name = 'synchronous_commit'"
    with database.begin(durable=False) as connection:
        assert connection.exec_driver_sql(query).one() == ("off", True)
    with database.begin() as connection:
        assert connection.exec_driver_sql(query).one()[1] is False, "as the server has it"


def test_nothing_is_prepared_in_the_session(database: Database) -> None:
    """A pooler before 1.21 hands prepared statements to nobody, or to the wrong client."""
    for _ in range(12):
        database.ping()
    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one() == 0


# Migrations


def test_the_tables_are_those_of_the_schema_through_up_down_and_up_again(empty: Database) -> None:
    assert migrate.upgrade(empty).current is None
    assert migrate.differences(empty) == []
    migrate.downgrade(empty, "base")
    with empty.begin() as connection:
        left = connection.execute(text("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
        assert sorted(left.scalars()) == ["alembic_version", "alembic_version_pkc"]
    migrate.upgrade(empty)
    assert migrate.differences(empty) == []
    assert migrate.upgrade(empty).up_to_date


def test_partitions_are_no_difference_and_go_down_with_their_table(empty: Database, now: datetime) -> None:
    migrate.upgrade(empty)
    Store(empty).reports.accept(HOST, *batch(reading(now, engine(now, prompt_tokens=1.0))), now)
    assert migrate.differences(empty) == []
    migrate.downgrade(empty, "base")


def test_several_controllers_migrate_at_once(empty_dsn: str) -> None:
    def up(_: int) -> bool:
        database = open_database(empty_dsn)
        try:
            return migrate.upgrade(database).up_to_date
        finally:
            database.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(up, range(4))) == [False, True, True, True]


def test_a_difference_would_be_seen(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.begin() as connection:
        connection.execute(text("ALTER TABLE engine DROP COLUMN model, ALTER COLUMN gpus TYPE bigint"))
    found = " ".join(migrate.differences(empty))
    assert "add_column" in found
    assert "modify_type" in found


def test_tables_that_are_not_there_or_are_a_newer_versions_are_for_a_person(empty: Database) -> None:
    with pytest.raises(Permanent, match=r"at revision none, this version needs .*tidegate db migrate"):
        migrate.require_current(empty)
    with pytest.raises(Permanent, match=r'relation "host" does not exist; .*tidegate db migrate'):
        Store(empty).hosts.all()
    migrate.upgrade(empty)
    migrate.require_current(empty)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for refused in (migrate.require_current, migrate.upgrade):
        with pytest.raises(Permanent, match=r"made by a newer Tidegate \(revision 9999"):
            refused(empty)


# The command


def test_db_migrate_and_status_on_a_database_of_ones_own(empty_dsn: str, now: datetime) -> None:
    run = CliRunner().invoke
    assert "no tables yet; this version needs" in run(app, ["status", "--dsn", empty_dsn]).output
    assert "brought from revision none to" in run(app, ["migrate", "--dsn", empty_dsn]).output
    assert "already at revision" in run(app, ["migrate", "--dsn", empty_dsn]).output
    database = open_database(empty_dsn)
    Store(database).reports.accept(HOST, *batch(reading(now, engine(now, prompt_tokens=1.0))), now)
    database.close()
    said = run(app, ["status", "--dsn", empty_dsn]).output
    assert "up to date" in said
    assert re.search(r"token usage: five-minute buckets of a host: \d waiting, the oldest of 2026-11-25 1", said)
    assert "leader     none yet" in said
    data = json.loads(run(app, ["status", "--dsn", empty_dsn, "--json"]).output)
    assert data["up_to_date"] is True
    assert (data["embedded"], data["jobs"], data["leader"]) == (False, [], None)
    (part,) = (one for one in data["partitions"] if one["table"] == "report")
    assert part["start"] <= now.isoformat() < part["end"]
    assert {"report", "usage", "chunk"} <= {one["name"] for one in data["tables"]}


def test_db_status_says_who_leads_and_how_the_jobs_did(database: Database, dsn: str, now: datetime) -> None:
    with closing(StoredLeadership(database)) as leaderships:
        leaderships.claim(Candidate("one/1", "gate-1:9092"), None, timedelta(minutes=5), now)
    Store(database).job_runs.note(
        [JobOverview("prune", now, 7, 1, 0, 0.25), JobOverview("never_ran")], "gate-1:9092", now
    )
    run = CliRunner().invoke
    said = run(app, ["status", "--dsn", dsn]).output
    assert "leader     leads gate-1:9092, term 1, since 2026-11-25 12:00:00 UTC" in said
    assert "prune  2026-11-25 12:00:00 UTC  0.25 s  1 of 7" in said
    data = json.loads(run(app, ["status", "--dsn", dsn, "--json"]).output)
    assert [(job["name"], job["runs"], job["controller"]) for job in data["jobs"]] == [("prune", 7, "gate-1:9092")]
    assert data["leader"]["leads_now"] is True


def test_db_on_the_embedded_database_starts_it_for_the_command_alone(state_dir: Path, tmp_path: Path) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text(f'[controller]\nstate_dir = "{state_dir}"\n')
    run = CliRunner().invoke
    assert "brought from revision none to" in run(app, ["migrate", "--config", str(config)]).output
    data = json.loads(run(app, ["status", "--config", str(config), "--json"]).output)
    assert (data["embedded"], data["up_to_date"], data["database"]) == (True, True, "tidegate")
    assert not EmbeddedPostgres(state_dir).alive()


@pytest.mark.parametrize("arguments", [[], ["--config", "x", "--dsn", "y"]])
def test_db_wants_one_database(arguments: list[str]) -> None:
    outcome = CliRunner().invoke(app, ["status", *arguments])
    assert isinstance(outcome.exception, ConfigError)
