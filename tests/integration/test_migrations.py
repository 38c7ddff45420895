"""Every migration goes down and up again on a database that is full of data; what it does not make anew is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from fakes.store_batches import HOST, batch, claim, engine, reading
from sqlalchemy import text

from tidegate.runtime.share import share_path
from tidegate.store import migrate
from tidegate.store.database import Database, open_database
from tidegate.store.matrix import read_chunks
from tidegate.store.store import Store

STEP = timedelta(minutes=1)
ROUNDS = 600


@pytest.fixture
def full(empty_dsn: str, now: datetime) -> Iterator[Database]:
    """Ten hours of reports, compacted in both layers and rolled up."""
    database = open_database(empty_dsn)
    migrate.upgrade(database)
    store = Store(database)
    claim(store.hosts, now, "vllm-0")
    looks = [reading(at, engine(at, generation_tokens=10.0 * n)) for n, at in enumerate(moments(now))]
    for cut in range(0, ROUNDS, 100):
        store.reports.accept(HOST, *batch(*looks[cut : cut + 100], first=cut + 1), looks[cut + 99].at)
    later = now + timedelta(hours=20)
    store.usage.roll_up(later)
    while (done := store.compaction.compact(later)).windows or done.merged:
        pass
    yield database
    database.close()


def moments(now: datetime) -> list[datetime]:
    return [now.replace(hour=0) + STEP * number for number in range(ROUNDS)]


def test_one_by_one_down_to_nothing_and_up_again(full: Database) -> None:
    found = sorted(path.name.partition("_")[0] for path in share_path("alembic").glob("versions/0*.py"))
    for revision in (*reversed(found[:-1]), "base"):
        migrate.downgrade(full, revision)
    migrate.upgrade(full)
    assert migrate.differences(full) == []


def test_what_was_reported_before_series_were_kept_is_compacted_after_the_upgrade(
    full: Database, now: datetime
) -> None:
    migrate.downgrade(full, "0004")
    with full.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM report")).scalar_one() == ROUNDS
    migrate.upgrade(full)
    assert migrate.differences(full) == []
    store, later = Store(full), datetime.now(tz=now.tzinfo) + timedelta(hours=1)
    while store.compaction.compact(max(later, now + timedelta(days=1))).windows:
        pass
    day = now.replace(hour=0)
    with full.begin() as connection:
        hot, cold = (read_chunks(connection, HOST, day, now, cold=layer) for layer in (False, True))
    assert sorted([*hot.moments.tolist(), *cold.moments.tolist()]) == [
        int(at.timestamp()) * 1_000_000 for at in moments(now)
    ]
