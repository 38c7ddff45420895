"""Kill -9 of the controller while traffic runs: after its return every report is stored once, and none is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest

from tidegate.demo.pace import Pace
from tidegate.demo.stage import HOSTS, Stage, StagePlan
from tidegate.runtime.errors import Transient
from tidegate.store.embedded import EmbeddedPostgres

OUTAGE = timedelta(minutes=2)
SPEED = 20.0
MORNING = datetime(2026, 11, 24, 9, 0, tzinfo=UTC)
PACE = Pace(SPEED, load=timedelta(seconds=40))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(StagePlan(PACE, MORNING, MORNING)) as found:
        eventually(lambda: found.gateway.counts().finished > 20, 60)
        yield found


def eventually(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def play(stage: Stage, span: timedelta) -> None:
    time.sleep(stage.clock.real_seconds(span))


def collected(stage: Stage, host: str) -> int:
    """How many collections the agent says it has made."""
    port = stage.addresses.agent_ports[host]
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    line = next(line for line in text.splitlines() if line.startswith("tidegate_collections_total "))
    return int(float(line.rsplit(" ", 1)[1]))


def caught_up(stage: Stage, since: datetime) -> bool:
    """True when every host was heard since then and keeps nothing back but the report that it is about to send."""
    try:
        hosts = stage.client.status().hosts
    except Transient:
        return False
    return len(hosts) == len(HOSTS) and all(
        host.last_seen is not None and host.last_seen > since and host.spool_reports <= 1 for host in hosts
    )


def stored(stage: Stage) -> dict[tuple[str, str], list[tuple[int, datetime]]]:
    """Every stored report's sequence and time, by host and boot, straight from the table."""
    database = EmbeddedPostgres(stage.addresses.controller_state, owner=False)
    found: dict[tuple[str, str], list[tuple[int, datetime]]] = {}
    with psycopg.connect(database.dsn) as connection:
        for host, boot, sequence, at in connection.execute(
            "SELECT host, boot_id, sequence, at FROM report ORDER BY host, boot_id, sequence"
        ):
            found.setdefault((host, boot), []).append((sequence, at))
    return found


def kill_and_return(stage: Stage) -> None:
    """Two minutes of played time without a controller, then every host heard and nothing kept back."""
    before = stage.gateway.counts()
    killed_at = stage.clock.now()
    stage.kill_controller()
    play(stage, OUTAGE)
    returned_at = stage.clock.now()
    assert stage.gateway.counts().finished > before.finished, "traffic ran on while the controller was away"
    stage.start_controller()
    eventually(lambda: caught_up(stage, returned_at), 30)
    held, counted_at = {host: collected(stage, host) for host in HOSTS}, stage.clock.now()
    eventually(lambda: caught_up(stage, counted_at), 30)
    check(stage, held, killed_at, returned_at)


def check(stage: Stage, held: dict[str, int], killed_at: datetime, returned_at: datetime) -> None:
    books = stored(stage)
    assert sorted(host for host, _ in books) == sorted(HOSTS), "one boot a host: no agent was restarted"
    for (host, _), rows in books.items():
        sequences = [sequence for sequence, _ in rows]
        assert sequences == list(range(1, len(rows) + 1)), f"{host}: a gap or a double"
        assert len(rows) >= held[host], f"{host}: the agent has collected more than is stored"
        during = sum(killed_at < at < returned_at for _, at in rows)
        assert during >= OUTAGE / PACE.agent_interval - 3, f"{host}: too few samples of the outage"


def rounds(stage: Stage, count: int) -> None:
    for _ in range(count):
        kill_and_return(stage)
        play(stage, timedelta(seconds=30))
    assert stage.gateway.counts().lost == 0


@pytest.mark.timeout(180)
def test_no_sample_is_missing_after_the_controller_was_killed(stage: Stage) -> None:
    """Three rounds; no request is lost meanwhile, and the gateway went on with its last list."""
    rounds(stage, 3)
    assert stage.gateway.counts().list_failures > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_sample_is_missing_after_many_kills(stage: Stage) -> None:
    """Twenty-five rounds of the same."""
    rounds(stage, 25)
