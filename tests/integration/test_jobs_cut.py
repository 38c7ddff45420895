"""Every job of the store with its connection cut before or after any message: done again it ends the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest
from fakes.store_batches import batch, claim, engine, reading
from sqlalchemy import text

from tidegate.model.fleet import PoolName
from tidegate.model.leadership import Candidate
from tidegate.model.memory import Memory
from tidegate.model.reading import HostName, HostReading
from tidegate.model.records import PoolFigures
from tidegate.runtime.errors import Transient
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.fence import Fence
from tidegate.store.leadership import StoredLeadership
from tidegate.store.matrix import read_chunks
from tidegate.store.store import Store

HOSTS = (HostName("gpu-1"), HostName("gpu-2"))
ROUNDS = 9 * 60
STEP = timedelta(minutes=1)
BATCH = 180
SAID = {
    "reports": "SELECT host, boot_id, sequence, at FROM report",
    "usage": "SELECT * FROM v_usage_history",
    "engines": "SELECT bucket, host, engine, generation_tokens, partial, tail FROM usage",
    "pools": "SELECT * FROM v_pool_history",
    "series": "SELECT at, host, metric, owner, rank, average, minimum, maximum, count, increase, last FROM v_series_5m",
    "hours": "SELECT at, host, metric, owner, rank, average, minimum, maximum, count, increase, last FROM v_series_1h",
    "windows": "SELECT host, start, done = version, samples, cold FROM series_window",
    "marks": "SELECT host, bucket, not_before FROM dirty_bucket",
    "parts": "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'",
}


class Cut:
    """Cuts a connection at one of the messages to come, before it is sent or when it was answered."""

    def __init__(self) -> None:
        self.left, self.after, self.done = 0, False, False

    def at(self, number: int, *, after: bool) -> None:
        """Cut at the message of this number, counted from now; 0: never."""
        self.left, self.after, self.done = number, after, False

    def wait(self, plain: Callable[..., Any], connection: psycopg.Connection[Any], *given: Any, **named: Any) -> Any:
        self.left -= 1
        now = self.left == 0
        if now and not self.after:
            self._cut(connection)
        answer = plain(connection, *given, **named)
        if now:
            self._cut(connection)
        return answer

    def _cut(self, connection: psycopg.Connection[Any]) -> None:
        self.done = True
        connection.close()
        raise psycopg.OperationalError("the connection was cut by the test")


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    made, plain = Cut(), psycopg.Connection.wait
    monkeypatch.setattr(psycopg.Connection, "wait", lambda *given, **named: made.wait(plain, *given, **named))
    return made


def looks(host: HostName, now: datetime) -> list[HostReading]:
    """A counter that is reset now and then; some of the looks are missing."""
    rng = random.Random(host)
    kept = [number for number in range(ROUNDS) if rng.random() > 0.02]
    return [
        reading(at, engine(at, generation_tokens=float(number % 200 * 7), started=float(number // 200)), host=host)
        for number in kept
        for at in (now + STEP * number,)
    ]


def jobs(store: Store, now: datetime) -> Iterator[Callable[[], object]]:
    """What agents and a leader do, in their order: each may be done again after any failure."""
    made = {host: looks(host, now) for host in HOSTS}
    for first in range(0, ROUNDS, BATCH):
        for host in HOSTS:
            some = made[host][first : first + BATCH]
            if some:
                yield partial(store.reports.accept, host, *batch(*some, first=first + 1), some[-1].at)
    for number in range(0, 120, 5):
        at = now + STEP * number
        tick = PoolFigures(at, PoolName("base"), "chat", ready=2, starting=0, leaving=0, target=2, queue_depth=3.0)
        store.decisions.settle((), Memory(), [tick])
    end = now + STEP * ROUNDS
    for later in (end, end + timedelta(minutes=30)):
        yield partial(store.usage.roll_up, later)
        yield partial(store.figures.roll_up, later)
    for later in (end + timedelta(minutes=30), end + timedelta(hours=30)):
        yield partial(store.compaction.compact, later)
        yield partial(store.compaction.compact, later)


def pruning(store: Store, now: datetime) -> Iterator[Callable[[], object]]:
    """What forgets, when samples are too old and their rollups are not."""
    end, days = now + STEP * ROUNDS, timedelta(days=10)
    yield partial(store.retention.prune, end + timedelta(days=11), days, days * 20)
    yield partial(store.figures.prune, end + timedelta(days=11), days * 20)


def said(database: Database, now: datetime) -> dict[str, list[str]]:
    """All that can be read, without the numbers of rows, which a cut makes skip some."""
    with database.begin() as connection:
        found = {name: sorted(map(repr, map(tuple, connection.execute(text(query))))) for name, query in SAID.items()}
        keys = {row.id: tuple(row)[1:] for row in connection.execute(text("SELECT id, owner, name, rank FROM series"))}
        for host in HOSTS:
            for cold in (False, True):
                span = (now - timedelta(days=1), now + timedelta(days=1))
                samples = read_chunks(connection, host, *span, cold=cold)
                values = [(keys[int(one)], row.tobytes()) for one, row in zip(samples.ids, samples.values, strict=True)]
                found[f"{host} {cold}"] = [repr(samples.moments.tolist()), *map(repr, sorted(values))]
    return found


@contextmanager
def opened(dsn: str, now: datetime) -> Iterator[Store]:
    database = open_database(dsn)
    store = Store(database)
    for host in HOSTS:
        claim(store.hosts, now, "vllm-0", host=host)
    try:
        yield store
    finally:
        database.close()


def done_in_pieces(work: Iterator[Callable[[], object]], cut: Cut, *, after: bool) -> int:
    """Do every job until it comes to its end, cut at its first message, then at its second ...; how often it was."""
    cuts = 0
    for job in work:
        for number in count(1):
            cut.at(number, after=after)
            try:
                job()
            except Transient:
                cuts += 1
                assert cut.done
                continue
            if not cut.done:
                break
        cut.at(0, after=after)
    return cuts


@pytest.mark.parametrize("after", [False, True])
def test_a_job_that_is_cut_anywhere_and_done_again_ends_the_same(
    dsn: str, empty_dsn: str, now: datetime, cut: Cut, *, after: bool
) -> None:
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    migrate.upgrade(fresh := open_database(empty_dsn))
    fresh.close()
    with opened(dsn, start) as broken, opened(empty_dsn, start) as whole:
        for work, cuts, least in ((jobs, 40, 2_000), (pruning, 30, 500)):
            for job in work(whole, start):
                job()
            assert done_in_pieces(work(broken, start), cut, after=after) > cuts
            wanted = said(whole.database, start)
            assert sum(map(len, wanted.values())) > least
            assert said(broken.database, start) == wanted


def everything(database: Database) -> dict[str, list[str]]:
    """Every row of every table, but for the lease."""
    with database.begin() as connection:
        names = [name for name in migrate.tables_of_ours(connection) if name != "lease"]
        return {name: sorted(connection.exec_driver_sql(f"SELECT t::text FROM {name} t").scalars()) for name in names}


def test_a_leader_whose_term_is_over_writes_nothing_whatever_job_it_wakes_up_in(dsn: str, now: datetime) -> None:
    """All of the work waits for its successor, which then does it."""
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end, days = start + STEP * ROUNDS, timedelta(days=10)
    with opened(dsn, start) as anybody, closing(StoredLeadership(anybody.database)) as leaderships:
        intake = [job for job in jobs(anybody, start) if getattr(job, "func", None) == anybody.reports.accept]
        for job in intake:
            job()
        leaderships.claim(Candidate("a/1", "a:9092"), None, timedelta(), start)
        leaderships.claim(Candidate("b/1", "b:9092"), None, timedelta(minutes=5), start)
        late = Store(anybody.database, Fence())
        before = everything(anybody.database)
        for job in (
            partial(late.usage.roll_up, end),
            partial(late.figures.roll_up, end),
            partial(late.figures.prune, end, days),
            partial(late.compaction.compact, end + timedelta(hours=30)),
            partial(late.retention.prune, end + days * 2, days, days),
            partial(late.decisions.settle, (), Memory(), ()),
            partial(late.costs.drop, [start.date()]),
        ):
            with late.fence.under(1), pytest.raises(Transient, match="term 1 of this controller is over"):
                job()
        assert everything(anybody.database) == before
        with late.fence.under(2):
            assert late.usage.roll_up(end) > 100
            assert late.compaction.compact(end + timedelta(hours=30)).windows == 10
