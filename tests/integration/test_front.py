"""The process that agents talk to, under a real controller: it goes on, comes back, ends, and never lies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fakes.agent_process import eventually
from fakes.controller_process import ControllerProcess
from fakes.controller_world import H1, batch, engine, host_state, reading

from tidegate.store.database import open_database
from tidegate.store.store import Store


@pytest.fixture
def controller(tmp_path: Path, dsn: str) -> Iterator[ControllerProcess]:
    """A controller over the test's database, ready."""
    made = ControllerProcess(tmp_path, dsn)
    made.start()
    made.until_ready()
    yield made
    made.stop()


@pytest.fixture
def token(controller: ControllerProcess) -> dict[str, str]:
    """What the host shows."""
    done = controller.command("host", "enroll", H1)
    assert done.returncode == 0, done.stderr
    return {"Authorization": f"Bearer {done.stdout.strip()}"}


def front_of(controller: ControllerProcess) -> int | None:
    """The front's process, while there is one."""
    assert controller.process is not None
    children = Path(f"/proc/{controller.process.pid}/task").glob("*/children")
    for pid in " ".join(each.read_text() for each in children).split():
        if b"wiring_front" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    return None


def report(controller: ControllerProcess, token: dict[str, str], number: int) -> httpx.Response:
    """One report of the host, now."""
    now = datetime.now(UTC)
    seen = reading(H1, now, [engine("vllm-a", now, running=float(number))])
    content = batch(H1, [seen], host_state(2), first=number).model_dump_json()
    return httpx.post(f"{controller.url}/v1/report", content=content, headers=token, timeout=20)


def fates(controller: ControllerProcess) -> dict[str, int]:
    """Reports by what became of them."""
    lines = httpx.get(f"{controller.url}/metrics", timeout=10).text.splitlines()
    found = [(line.split('"')[1], line.rpartition(" ")[2]) for line in lines if "reports_total{" in line]
    return {name: int(float(number)) for name, number in found}


def test_what_it_took_is_seen_by_the_next_tick(controller: ControllerProcess, token: dict[str, str]) -> None:
    """The two processes tell each other what they need: reports one way, commands and revocations the other."""
    assert report(controller, token, 1).status_code == 200
    assert report(controller, token, 1).status_code == 200
    assert httpx.post(f"{controller.url}/v1/report", content=b"{", headers=token).status_code == 400
    eventually(lambda: fates(controller) == {"stored": 1, "duplicate": 1, "malformed": 1}, "the fates")
    eventually(lambda: [host["up"] for host in controller.get("/v1/status")["hosts"]] == [True], "a tick with it")
    assert controller.command("host", "revoke", H1).returncode == 0
    assert report(controller, token, 2).status_code == 401, "from the moment of the command"


def test_a_front_that_is_killed_is_started_anew_and_loses_nothing(
    controller: ControllerProcess, token: dict[str, str], dsn: str
) -> None:
    """Three times, while a host reports: what was acknowledged is stored once, and the controller goes on leading."""
    acknowledged, number = 0, 0
    for _ in range(3):
        for _ in range(5):
            number += 1
            acknowledged += report(controller, token, number).status_code == 200
        pid = front_of(controller)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        number += 1
        try:  # it waits in the socket's queue, which the controller keeps, or its connection is cut
            acknowledged += report(controller, token, number).status_code == 200
        except httpx.HTTPError:
            number -= 1
    assert acknowledged >= 15
    database = open_database(dsn)
    assert Store(database).reports.count(H1) == acknowledged
    database.close()
    assert controller.said().count("the front has ended: it is started anew") == 3
    assert controller.said().count("this controller leads") == 1
    assert controller.answers("/-/ready")


def test_it_ends_with_a_controller_that_is_killed(controller: ControllerProcess) -> None:
    """Nobody answers in the name of a controller that is gone, and its port is free."""
    pid = front_of(controller)
    assert pid is not None
    controller.signal(signal.SIGKILL)
    controller.ended()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the end of the front")
    controller.start()
    controller.until_ready()


def test_a_stop_lets_nobody_wait(controller: ControllerProcess, token: dict[str, str]) -> None:
    """Whoever holds a long poll open has his answer, and the controller ends well within the poll's time."""
    told: list[int] = []

    def poll() -> None:
        position = httpx.get(f"{controller.url}/v1/desired", headers=token).json()
        after = f"after_epoch={position['epoch']}&after={position['revision']}"
        told.append(httpx.get(f"{controller.url}/v1/desired?{after}&wait=25", headers=token, timeout=40).status_code)

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(1.0)
    began = time.monotonic()
    assert controller.stop() == 0
    assert time.monotonic() - began < 15
    waiting.join(30)
    assert told == [204]
    assert "error" not in controller.said()


def test_signals_are_the_controllers_affair(controller: ControllerProcess) -> None:
    """Ctrl-C and a service manager that signals everybody reach it too; it ends when the controller says so."""
    pid = front_of(controller)
    assert pid is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert controller.answers("/-/ready")
    assert front_of(controller) == pid
