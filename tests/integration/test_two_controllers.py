"""Two controllers on one database: one leads, the other takes reports and waits; what happens when the leader goes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest
from fakes.agent_process import eventually
from fakes.controller_process import ControllerProcess
from fakes.controller_world import H1, batch, engine, host_state, reading
from fakes.external_postgres import pooled

from tidegate.runtime.tokens import token_hash

TOKEN = "tgh_of-a-test"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
LEASE = 3


either_way = pytest.mark.parametrize("address", ["direct", "pooled"], indirect=True)


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Postgres 18 as it is, or a 15 behind PgBouncer in transaction mode; the host enrolled."""
    if getattr(request, "param", "direct") == "direct":
        dsn = request.getfixturevalue("dsn")
        enroll(dsn)
        yield dsn
        return
    dsn = request.getfixturevalue("emptied_postgres_15")
    enroll(dsn)
    with pooled(dsn, connections=8) as through:
        yield through


@pytest.fixture
def pair(tmp_path: Path, address: str) -> Iterator[tuple[ControllerProcess, ControllerProcess]]:
    """The first leads, the second stands by."""
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(ControllerProcess(folder, address))
        made[-1].configure(lease=LEASE)
    try:
        for one in made:
            one.start()
            one.until_ready()
        yield made[0], made[1]
    finally:
        for one in made:
            if one.process is not None and one.process.poll() is None:
                one.signal(signal.SIGCONT)
            one.stop()


def enroll(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO host (name, token_hash, enrolled_at) VALUES (%s, %s, now())", (H1, token_hash(TOKEN))
        )


def ask(dsn: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        return connection.execute(question).fetchall()  # type: ignore[arg-type]


def part(controller: ControllerProcess) -> str:
    return str(controller.get("/v1/status")["leader"]["part"])


def deliver(controller: ControllerProcess, number: int, running: float) -> None:
    """One report of the host to this controller."""
    now = datetime.now(UTC)
    own = [engine("vllm-a", now, running=running, queue_depth=0.0, generation_tokens=number * 100.0)]
    content = batch(H1, [reading(H1, now, own, gpus=(0.5,))], host_state(2), first=number).model_dump_json()
    answer = httpx.post(f"{controller.url}/v1/report", content=content, headers=HEADERS, timeout=20)
    assert answer.status_code == 200, answer.text


def test_one_leads_the_other_serves_and_follows(
    pair: tuple[ControllerProcess, ControllerProcess], address: str
) -> None:
    """The page and the metrics of either say who; what a host tells the one that stands by, the leader acts on."""
    leader, other = pair
    assert (part(leader), part(other)) == ("leads", "stands_by")
    assert "standing by: " in httpx.get(f"{other.url}/-/ready").text
    metrics = httpx.get(f"{other.url}/metrics").text
    assert "tidegate_leading 0.0" in metrics
    assert f":{leader.port}" in metrics.split("tidegate_leader_epoch{", 1)[1].splitlines()[0]
    assert "tidegate_leading 1.0" in httpx.get(f"{leader.url}/metrics").text
    for language, words in (("en", "This controller stands by"), ("zh", "此控制器处于待命状态")):
        assert words in httpx.get(f"{other.url}/?lang={language}").text
        assert words not in httpx.get(f"{leader.url}/?lang={language}").text

    for number in range(1, 3):
        deliver(other, number, running=3.0)
    eventually(lambda: [h for h in leader.get("/v1/status")["hosts"] if h["up"]], "the leader never heard of it")
    # The leader wants a replica there; the agent that waits at the other controller is told.
    where = f"after_epoch={leader.get('/v1/status')['epoch']}&after=0&wait=20"
    told = httpx.get(f"{other.url}/v1/desired?{where}", headers=HEADERS, timeout=30).json()
    assert [one["replica_id"] for one in told["replicas"]] == ["base-1"]
    before = len(ask(address, "SELECT DISTINCT at FROM decision"))
    eventually(lambda: len(ask(address, "SELECT DISTINCT at FROM decision")) > before + 1, "the leader does not tick")
    assert {job["name"] for job in other.get("/v1/status")["jobs"] if job["runs"]} == {"changes"}


@either_way
def test_a_frozen_leader_is_replaced_and_changes_nothing_when_it_wakes_up(
    pair: tuple[ControllerProcess, ControllerProcess], address: str
) -> None:
    leader, other = pair
    first = leader.get("/v1/status")["epoch"]
    leader.signal(signal.SIGSTOP)
    eventually(lambda: part(other) == "leads", "nobody took over", seconds=40)
    second = other.get("/v1/status")["epoch"]
    assert second > first
    eventually(lambda: other.get("/v1/status")["tick_at"] is not None, "the new leader does not tick")

    leader.signal(signal.SIGCONT)
    eventually(lambda: part(leader) == "stands_by", "the old leader does not stand aside")
    at, epoch = ask(address, "SELECT now(), epoch FROM lease")[0]
    assert epoch == second
    written = f"SELECT count(*), count(DISTINCT at) FROM decision WHERE at > '{at}'"
    eventually(lambda: ask(address, written)[0][0] >= 2, "the new leader does not tick")
    assert ask(address, written)[0][0] == ask(address, written)[0][1], "one decision a tick: one of them ticks"
    assert leader.get("/v1/status")["pools"] == [], "nothing old is shown as the fleet"


def test_a_leader_that_stops_leaves_at_once_and_one_that_returns_need_not_wait(
    pair: tuple[ControllerProcess, ControllerProcess],
) -> None:
    leader, other = pair
    assert leader.stop() == 0
    eventually(lambda: part(other) == "leads", "nobody took over", seconds=LEASE * 2)
    leader.start()
    leader.until_ready()
    assert part(leader) == "stands_by", "the one that leads goes on leading"

    other.signal(signal.SIGKILL)
    other.ended()
    other.start()
    eventually(lambda: other.answers("/-/ready"), other.said(), seconds=40)
    parts = sorted((part(leader), part(other)))
    assert parts == ["leads", "stands_by"]
