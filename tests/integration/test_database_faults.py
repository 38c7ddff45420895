"""A database that is cut off in the middle, full, or busy: reports stay with their hosts, and each is stored once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from fakes.external_postgres import PROGRAMS, running
from fakes.postgres import open_folder
from fakes.store_batches import HOST, batch, engine, reading
from fakes.tcp_proxy import TcpProxy

from tidegate.runtime.errors import Transient
from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
STEP = timedelta(seconds=15)


def deliver(store: Store, now: datetime, numbers: range) -> int:
    """Reports of one host, as one batch; how many were new."""
    seen = [
        reading(now + number * STEP, engine(now + number * STEP, generation_tokens=float(number))) for number in numbers
    ]
    return store.reports.accept(HOST, *batch(*seen, first=numbers.start), now + numbers.stop * STEP).stored


@pytest.fixture
def proxy(emptied_postgres_15: str) -> Iterator[TcpProxy]:
    with TcpProxy(int(emptied_postgres_15.rpartition("/")[0].rpartition(":")[2])) as made:
        yield made


@pytest.fixture
def proxied(emptied_postgres_15: str, proxy: TcpProxy) -> Iterator[Store]:
    """The store through the proxy."""
    port = emptied_postgres_15.rpartition("/")[0].rpartition(":")[2]
    with closing(open_database(emptied_postgres_15.replace(f":{port}/", f":{proxy.port}/"))) as database:
        yield Store(database)


@pytest.mark.parametrize("moment", [b"PGCOPY\n\xff\r\n\x00", b"COMMIT"], ids=["in the COPY", "at the commit"])
def test_a_connection_that_is_cut_loses_nothing_and_stores_nothing_twice(
    proxied: Store, proxy: TcpProxy, now: datetime, moment: bytes
) -> None:
    """In the COPY all of the batch is undone; at the commit nobody knows, and the repeat finds out."""
    assert deliver(proxied, now, range(1, 4)) == 3
    proxy.cut_when = lambda data: moment in data
    with pytest.raises(Transient, match="does not answer"):
        deliver(proxied, now, range(4, 40))
    assert proxy.cuts == 1
    deliver(proxied, now, range(4, 40))
    assert proxied.reports.count(HOST) == 39
    assert deliver(proxied, now, range(1, 40)) == 0


def test_a_table_that_is_locked_is_waited_for_in_bounds(
    proxied: Store, emptied_postgres_15: str, now: datetime
) -> None:
    """As by somebody's maintenance: the host is told to come again, no thread waits for ever."""
    deliver(proxied, now, range(1, 2))
    with psycopg.connect(emptied_postgres_15) as other:
        other.execute("LOCK TABLE report IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Transient, match="lock timeout"):
            deliver(proxied, now, range(2, 3))
    assert deliver(proxied, now, range(1, 3)) == 1


@pytest.fixture
def full_disk() -> Iterator[tuple[Store, Path]]:
    """A store whose tables lie on a disk that is full while the file exists."""
    if not (PROGRAMS / "postgres").exists():
        pytest.skip("postgresql-15 of Debian is not installed")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is absent (Debian package: gcc)")
    folder = open_folder()
    library, flag = folder / "full_disk.so", folder / "full"
    source = str(ROOT / "tests" / "native" / "full_disk.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"], check=True)
    before = ("/usr/bin/env", f"LD_PRELOAD={library}", f"TIDEGATE_FULL={flag}")
    try:
        with running(folder, before=before) as dsn, closing(open_database(dsn)) as database:
            migrate.upgrade(database)
            yield Store(database), flag
            flag.unlink(missing_ok=True)  # or its last checkpoint could not be written
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(store: Store, now: datetime, first: int) -> int:
    """Deliver until the disk is full; the last number that was taken."""
    for start in range(first, 5_000, 50):
        try:
            deliver(store, now, range(start, start + 50))
        except Transient as error:
            assert "No space left on device" in str(error)  # noqa: PT017 - the loop's end
            return start - 1
    raise AssertionError("the disk was never full")


def test_a_full_disk_refuses_reports_until_there_is_room(full_disk: tuple[Store, Path], now: datetime) -> None:
    """What was acknowledged before is there, what was not comes again; the error names the cause."""
    store, flag = full_disk
    deliver(store, now, range(1, 50))
    flag.touch()
    taken = fill(store, now, 50)
    assert store.reports.count(HOST) == taken
    flag.unlink()
    assert deliver(store, now, range(1, taken + 51)) == 50
    assert store.reports.count(HOST) == taken + 50
