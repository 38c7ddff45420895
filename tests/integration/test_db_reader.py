"""`tidegate db reader`: who may come in, what he sees, and that the database starts whatever becomes of its port."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from fakes.postgres import open_folder
from sqlalchemy import text
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.runtime.errors import ConfigError
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.readers import ensure_reader, grant_again, remove_reader


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A state folder with a migrated database in it, stopped, and a configuration beside it."""
    made = open_folder()
    server = EmbeddedPostgres(made, durable=False)
    server.start()
    database = open_database(server.dsn)
    migrate.upgrade(database)
    database.close()
    server.stop()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def config(folder: Path) -> Path:
    file = folder / "controller.toml"
    file.write_text(f'[controller]\nstate_dir = "{folder}"\n')
    return file


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(*words: object) -> str:
    done = CliRunner().invoke(app, ["db", "reader", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def password_in(said: str) -> str:
    found = re.search(r"Password +(tgr_\S+)", said)
    assert found, said
    return found.group(1)


def over_tcp(port: int, password: str, user: str = "tidegate_reader") -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host="127.0.0.1", port=port, dbname="tidegate", user=user, password=password, connect_timeout=5
    )


def test_the_port_opens_for_the_reader_alone_and_closes_again(folder: Path, config: Path) -> None:
    port = free_port()
    first = command("--config", config, "--port", port)
    again = command("--config", config)
    password = password_in(first)

    assert f"127.0.0.1:{port}" in first
    assert f"127.0.0.1:{port}" in again, "the port of before"
    assert "tgr_" not in again, "shown once"
    server = EmbeddedPostgres(folder, durable=False)
    server.start()
    try:
        assert server.listens() == port
        with over_tcp(port, password) as connection:
            assert connection.execute("SELECT count(*) FROM v_pool_figures").fetchone() == (0,)
            assert connection.execute("SHOW statement_timeout").fetchone() == ("30s",)
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
        for user, word in (("tidegate_reader", "wrong"), ("tidegate", password), ("postgres", password)):
            with pytest.raises(psycopg.OperationalError):
                over_tcp(port, word, user)
        said = command("--config", config, "--rotate")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            over_tcp(port, password)
        over_tcp(port, password_in(said)).close()
        assert "dropped" in command("--config", config, "--remove")
        with pytest.raises(psycopg.OperationalError):
            over_tcp(port, password_in(said))
    finally:
        server.stop()
    server.start()
    try:
        assert server.listens() is None
    finally:
        server.stop()


def test_a_taken_port_is_refused_before_anything_is_made_and_never_keeps_the_database_down(
    folder: Path, config: Path
) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        with pytest.raises(ConfigError, match=r"taken by another program: choose one with --port"):
            command("--config", config, "--port", port)
    command("--config", config, "--port", port)
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        server = EmbeddedPostgres(folder, durable=False)
        server.start()
        try:
            assert server.listens() is None
            with psycopg.connect(server.dsn) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        finally:
            server.stop()
    command("--config", config, "--remove")


def test_the_reader_sees_views_and_nothing_else_new_ones_too(database: Database) -> None:
    made = ensure_reader(database, "curious")
    try:
        assert made.password is not None
        assert "v_usage" in made.views
        with database.begin() as connection:
            connection.execute(text("CREATE VIEW v_brand_new AS SELECT 1 AS one"))
            grant_again(connection)
        with database.begin() as connection:
            tables = connection.execute(
                text(
                    "SELECT relname, has_table_privilege('curious', oid, 'SELECT') AS may FROM pg_class "
                    "WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v')"
                )
            ).all()
        assert {name for name, may in tables if may} == {name for name, _ in tables if name.startswith("v_")}
        assert ensure_reader(database, "curious").password is None
    finally:
        with database.begin() as connection:
            connection.execute(text("DROP VIEW IF EXISTS v_brand_new"))
        assert remove_reader(database, "curious")
    assert not remove_reader(database, "curious")


def test_a_name_that_is_none_never_reaches_the_database(database: Database) -> None:
    with pytest.raises(ConfigError, match="small letters"):
        ensure_reader(database, 'x"; DROP TABLE host; --')
