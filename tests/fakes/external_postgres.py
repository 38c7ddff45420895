"""A Postgres 15 of Debian over TCP with a password, and a PgBouncer in transaction mode before it: as in production."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from fakes.agent_process import eventually, free_port
from fakes.postgres import empty, open_folder

from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.embedded_process import launch, run
from tidegate.store.embedded_user import ServerUser, server_user

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
BOUNCER = "/usr/sbin/pgbouncer"
PASSWORD = "of-a-test"
_POOLER = """\
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {connections}
logfile = {folder}/pgbouncer.log
"""


@pytest.fixture(scope="session")
def postgres_15() -> Iterator[str]:
    """The address of a migrated database on it; skips where Debian's package is absent."""
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("postgresql-15 of Debian is not installed")
    folder = open_folder()
    try:
        with running(folder) as dsn:
            database = open_database(dsn)
            migrate.upgrade(database)
            database.close()
            yield dsn
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def emptied_postgres_15(postgres_15: str) -> str:
    """The same, with nothing in its tables."""
    empty(postgres_15)
    return postgres_15


@contextmanager
def running(folder: Path, *settings: str, before: tuple[str, ...] = ()) -> Iterator[str]:
    """A fresh cluster in the folder; its database's address. `before`: words before the server's own."""
    user, data, port = server_user(folder / "data"), folder / "data", free_port()
    (folder / "password").write_text(PASSWORD)
    data.mkdir(mode=0o700)
    _give(user, data, folder / "password")
    options = ["--auth=scram-sha-256", "--username=tidegate", f"--pwfile={folder}/password", "--encoding=UTF8"]
    made = run(user, [str(PROGRAMS / "initdb"), f"--pgdata={data}", "--locale=C", "--no-sync", *options])
    assert made.returncode == 0, made.stderr
    wanted = (f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", *settings)
    log = os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    command = [*before, str(PROGRAMS / "postgres"), "-D", str(data), *(part for one in wanted for part in ("-c", one))]
    server = launch(user, command, log)
    os.close(log)
    dsn = f"postgresql://tidegate:{PASSWORD}@127.0.0.1:{port}/tidegate"
    try:
        eventually(lambda: answers(dsn.removesuffix("tidegate") + "postgres"), (folder / "server.log").read_text())
        with psycopg.connect(dsn.removesuffix("tidegate") + "postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE tidegate")
        yield dsn
    finally:
        server.terminate()
        _end(server)


@contextmanager
def pooled(dsn: str, connections: int = 20) -> Iterator[str]:
    """The same database through a PgBouncer of our own; skips where it is not installed."""
    if not Path(BOUNCER).exists():
        pytest.skip("pgbouncer of Debian is not installed")
    folder, port = open_folder(), free_port()
    server = dsn.rpartition("/")[0].rpartition(":")[2]
    (folder / "users").write_text(f'"tidegate" "{PASSWORD}"\n')
    (folder / "ini").write_text(_POOLER.format(folder=folder, port=port, server=server, connections=connections))
    user = server_user(folder / "nothing")
    _give(user, folder / "users", folder / "ini", folder)
    log = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    process = launch(user, [BOUNCER, "-q", str(folder / "ini")], log)
    os.close(log)
    through = dsn.replace(f":{server}/", f":{port}/")
    try:
        eventually(lambda: answers(through), (folder / "said").read_text())
        yield through
    finally:
        process.terminate()
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def answers(dsn: str) -> bool:
    """True when one can log in."""
    try:
        psycopg.connect(dsn, connect_timeout=2, prepare_threshold=None).close()
    except psycopg.OperationalError:
        return False
    return True


def _give(user: ServerUser, *paths: Path) -> None:
    if user.assumed:
        for path in paths:
            os.chown(path, user.uid, user.gid)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
