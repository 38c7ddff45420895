"""The embedded Postgres through every end that it and its owner can come to."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from fakes.postgres import open_folder

from tidegate.runtime.errors import ConfigError, Permanent, Transient
from tidegate.store import embedded_binaries, embedded_user
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.embedded_process import read_pid_file
from tidegate.store.embedded_user import ServerUser, barrier, server_user

OWNER = """
import sys, time
from pathlib import Path
from tidegate.store.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
print(server.status().pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def made_once() -> Iterator[Path]:
    """A state folder with a cluster in it, stopped; copied, since to make one takes five times as long."""
    folder = open_folder()
    first = EmbeddedPostgres(folder, durable=False)
    first.start()
    first.stop()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server(state_dir: Path, made_once: Path) -> Iterator[EmbeddedPostgres]:
    """A server that is not started yet and has been started before."""
    subprocess.run(["cp", "-a", str(made_once / "postgres"), str(state_dir)], check=True)
    yield from stopped_at_the_end(EmbeddedPostgres(state_dir, durable=False))


@pytest.fixture
def new_server(state_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A server with nothing in its folder."""
    yield from stopped_at_the_end(EmbeddedPostgres(state_dir, durable=False))


def stopped_at_the_end(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    yield server
    server.stop()
    assert not server.alive()


def pid_of(server: EmbeddedPostgres) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def run(server: EmbeddedPostgres, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def eventually(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_it_answers_over_a_private_socket_and_nowhere_else(new_server: EmbeddedPostgres, state_dir: Path) -> None:
    """Under a strict umask too, as services have."""
    server = new_server
    before = os.umask(0o077)
    try:
        server.start()
    finally:
        os.umask(before)
    assert run(server, "SHOW listen_addresses") == [("",)]
    assert run(server, "SELECT current_database(), current_user") == [("tidegate", "tidegate")]
    home = state_dir / "postgres"
    for private in (home / "data", home / "socket"):
        assert private.stat().st_mode & 0o077 == 0
    assert (home / "data").stat().st_uid != 0


def test_it_starts_and_stops_again_and_again(server: EmbeddedPostgres) -> None:
    server.start()
    server.start()
    run(server, "CREATE TABLE kept (n int)")
    server.stop()
    server.stop()
    assert not server.alive()
    with pytest.raises(Transient, match="is not running"):
        _ = server.dsn
    server.start()
    assert run(server, "SELECT count(*) FROM kept") == [(0,)]


def test_open_connections_do_not_hold_up_a_stop(server: EmbeddedPostgres) -> None:
    server.start()
    with closing(psycopg.connect(server.dsn)) as connection:
        connection.execute("SELECT pg_sleep(0)")
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 15
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_an_owner_killed_hard_leaves_a_server_that_the_next_owner_takes_over_and_ends(
    server: EmbeddedPostgres, state_dir: Path
) -> None:
    """Neither an orphan for ever, nor a recovery for nothing."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(state_dir)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner:
        pid = int(owner.stdout.readline())
        owner.kill()
    server.start()
    assert pid_of(server) == pid
    server.stop()
    assert read_pid_file(state_dir / "postgres" / "data") is None


def test_a_server_that_dies_is_noticed_and_recovers_what_was_committed(
    server: EmbeddedPostgres, state_dir: Path
) -> None:
    server = EmbeddedPostgres(state_dir)
    server.start()
    address = server.dsn
    run(server, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    os.kill(pid_of(server), signal.SIGKILL)
    eventually(lambda: not server.alive())
    server.start()
    assert server.dsn == address
    assert run(server, "SELECT count(*) FROM kept") == [(1000,)]
    server.stop()


def test_a_waiting_start_ends_when_we_are_stopping(state_dir: Path, server: EmbeddedPostgres) -> None:
    server.start()
    stopping = threading.Event()
    stopping.set()
    second = EmbeddedPostgres(state_dir, owner=False, stopping=stopping)
    with (state_dir / "postgres" / "start.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Transient, match="stopped while"):
            second.start()


def test_there_is_one_owner(server: EmbeddedPostgres, state_dir: Path) -> None:
    server.start()
    with pytest.raises(Permanent, match="another controller uses the state folder"):
        EmbeddedPostgres(state_dir, durable=False).start()
    assert server.alive()


def test_a_guest_uses_what_runs_and_leaves_it_running(server: EmbeddedPostgres, state_dir: Path) -> None:
    server.start()
    pid = pid_of(server)
    guest = EmbeddedPostgres(state_dir, owner=False)
    guest.start()
    assert run(guest, "SELECT 1") == [(1,)]
    guest.stop()
    assert pid_of(server) == pid


def test_a_guest_stops_what_it_started(state_dir: Path) -> None:
    guest = EmbeddedPostgres(state_dir, owner=False, durable=False)
    guest.start()
    guest.stop()
    assert not guest.alive()


def test_a_guest_leaves_what_it_started_to_an_owner_who_came_meanwhile(
    server: EmbeddedPostgres, state_dir: Path
) -> None:
    guest = EmbeddedPostgres(state_dir, owner=False, durable=False)
    guest.start()
    server.start()
    guest.stop()
    assert run(server, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("program", [["sleep", "60"], ["true"]])
def test_a_pid_that_now_belongs_to_another_program_or_a_zombie_does_not_hold_up_a_start(
    server: EmbeddedPostgres, state_dir: Path, program: list[str]
) -> None:
    """As after a crash in a container, where numbers come round quickly and nobody buries the dead."""
    server.start()
    data = state_dir / "postgres" / "data"
    lines = (data / "postmaster.pid").read_text().splitlines()
    os.kill(pid_of(server), signal.SIGKILL)
    eventually(lambda: not server.alive())
    (lock,) = Path(lines[4]).glob(".s.PGSQL.*.lock")
    user = server_user(data)  # Postgres takes no notice of another user's
    with subprocess.Popen(program, user=user.uid if user.assumed else None) as other:
        for path, told in ((data / "postmaster.pid", lines), (lock, lock.read_text().splitlines())):
            path.write_text("\n".join([str(other.pid), *told[1:]]) + "\n")
        assert not server.alive()
        server.start()
        assert run(server, "SELECT 1") == [(1,)]
        other.kill()


def test_a_first_start_that_was_cut_short_is_begun_again(new_server: EmbeddedPostgres, state_dir: Path) -> None:
    half = state_dir / "postgres" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    new_server.start()
    assert run(new_server, "SELECT 1") == [(1,)]
    assert not half.exists()


def test_data_of_another_major_version_is_left_alone_with_the_remedy(server: EmbeddedPostgres, state_dir: Path) -> None:
    server.start()
    server.stop()
    version = state_dir / "postgres" / "data" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(ConfigError, match=r"made by Postgres 17 and this is \d+: run `tidegate db upgrade --config"):
        server.start()


def test_a_server_that_cannot_start_says_why_with_its_own_words(server: EmbeddedPostgres, state_dir: Path) -> None:
    server.start()
    server.stop()
    (state_dir / "postgres" / "data" / "postgresql.conf").write_text("no such setting = 1\n")
    with pytest.raises(Permanent, match=r"did not start: .*FATAL.* \(see .*server\.log\)"):
        server.start()


def test_a_long_path_gets_a_short_socket(state_dir: Path, made_once: Path) -> None:
    """Sockets have a hundred bytes for their path; a restarted server is found where it was."""
    deep = state_dir / ("d" * 60) / ("e" * 60)
    for folder in (deep.parent, deep):
        folder.mkdir()
        folder.chmod(0o711)
    subprocess.run(["cp", "-a", str(made_once / "postgres"), str(deep)], check=True)
    server = EmbeddedPostgres(deep, durable=False)
    server.start()
    found = read_pid_file(deep / "postgres" / "data")
    assert found is not None
    assert found.socket_dir is not None
    assert found.socket_dir.stat().st_mode & 0o777 == 0o700
    address = server.dsn
    os.kill(found.pid, signal.SIGKILL)
    eventually(lambda: not server.alive())
    server.start()
    assert server.dsn == address
    assert run(server, "SELECT 1") == [(1,)]
    server.stop()
    assert not found.socket_dir.exists()


def test_a_folder_that_the_servers_user_cannot_enter_is_named_with_the_remedy(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root in a closed folder; no permission of any folder above ours is changed."""
    closed = state_dir / "closed"
    closed.mkdir(mode=0o700)
    stranger = ServerUser("stranger", 54321, 54321, assumed=True)
    monkeypatch.setattr("tidegate.store.embedded.server_user", lambda data: stranger)
    state_dir.chmod(0o700)
    with pytest.raises(Permanent, match=rf"user stranger, who may not enter {state_dir}.*chmod o\+x"):
        EmbeddedPostgres(closed).start()
    assert closed.stat().st_mode & 0o777 == 0o700


def test_barrier_finds_the_outermost_closed_folder(state_dir: Path) -> None:
    inner = state_dir / "a" / "b"
    inner.mkdir(parents=True)
    for folder in (state_dir, state_dir / "a", inner):
        folder.chmod(0o711)
    stranger = ServerUser("stranger", 54321, 54321, assumed=True)
    assert barrier(inner, stranger) is None
    (state_dir / "a").chmod(0o710)
    assert barrier(inner, stranger) == state_dir.resolve() / "a"
    group = ServerUser("member", 54321, (state_dir / "a").stat().st_gid, assumed=True)
    assert barrier(inner, group) is None


def test_programs_out_of_reach_are_copied_once_and_run_from_there(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a checkout under a closed home folder."""
    monkeypatch.setattr(embedded_binaries, "readable", lambda paths, user: False)
    user = server_user(state_dir / "data")
    assumed = ServerUser(user.name, user.uid, user.gid, assumed=True)
    stale, needed = state_dir / "programs-18.0.0", state_dir / "programs-17.0.0"
    stale.mkdir()
    needed.mkdir()  # another major's may still have to read its data
    programs = embedded_binaries.programs(state_dir, assumed)
    assert programs.is_relative_to(state_dir)
    assert embedded_binaries.major(programs) >= 18
    assert not stale.exists()
    assert needed.exists()
    before = programs.stat().st_ctime_ns
    assert embedded_binaries.programs(state_dir, assumed) == programs
    assert programs.stat().st_ctime_ns == before


def test_root_becomes_an_ordinary_user_and_stays_with_the_owner_of_the_data(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        assert server_user(state_dir / "data").uid == os.geteuid()
        return
    chosen = server_user(state_dir / "data")
    assert chosen.assumed
    assert chosen.uid != 0
    data = state_dir / "data"
    data.mkdir()
    nobody = embedded_user._entry("nobody")
    assert nobody is not None
    os.chown(data, nobody.pw_uid, nobody.pw_gid)
    assert server_user(data).uid == nobody.pw_uid


def test_without_useradd_an_existing_user_has_to_do(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"nobody": embedded_user._entry("nobody")}
    monkeypatch.setattr(embedded_user, "_entry", known.get)
    monkeypatch.setattr(embedded_user.os, "geteuid", lambda: 0)
    monkeypatch.setattr(embedded_user.shutil, "which", lambda name, path: None)
    assert server_user(state_dir / "data").name == "nobody"
    known.clear()
    with pytest.raises(Permanent, match="useradd --system tidegate"):
        server_user(state_dir / "data")
