"""The controller as a process over a real Postgres: its start, its commands, a reload, its end, and what goes wrong."""

from __future__ import annotations

import signal
import socket
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fakes.agent_process import eventually
from fakes.controller_process import ControllerProcess
from fakes.controller_world import H1, batch, engine, host_state, reading

from tidegate.model.fleet import ReplicaState
from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.wire import HostState


@pytest.fixture
def controller(tmp_path: Path, dsn: str) -> Iterator[ControllerProcess]:
    """A controller over the test's database, not yet started."""
    made = ControllerProcess(tmp_path, dsn)
    yield made
    made.stop()


def enroll(controller: ControllerProcess) -> str:
    """The host's token, as the command prints it."""
    done = controller.command("host", "enroll", H1)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def deliver(controller: ControllerProcess, token: str, number: int, state: HostState, running: float) -> httpx.Response:
    """One report of the host, now."""
    now = datetime.now(UTC)
    seen = reading(H1, now, [engine("base-1", now, running=running, queue_depth=0.0, generation_tokens=number * 100.0)])
    body = batch(H1, [seen], state, first=number).model_dump_json()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{controller.url}/v1/report", content=body, headers=headers, timeout=10)


def test_from_an_empty_database_to_a_replica_that_takes_traffic(controller: ControllerProcess) -> None:
    """Enroll, report, be told what to run, run it, be seen; then a reload, a bad one, and an orderly end."""
    controller.start()
    controller.until_ready()
    token_file = controller.folder / "operator.token"
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    token = enroll(controller)
    assert token_file.read_text().strip() not in controller.said()

    answer = deliver(controller, token, 1, host_state(2), 0.0).json()
    assert answer["acknowledged"]
    after = f"after_epoch={answer['desired']['epoch']}&after=0"
    headers = {"Authorization": f"Bearer {token}"}
    wanted = httpx.get(f"{controller.url}/v1/desired?{after}&wait=20", headers=headers, timeout=30).json()
    assert [(one["replica_id"], one["slot"], one["port"]) for one in wanted["replicas"]] == [("base-1", 0, 8100)]

    running = host_state(2, replicas={"base-1": ReplicaState.READY}, desired=(wanted["epoch"], wanted["revision"]))
    deliver(controller, token, 2, running, 1.0)
    eventually(lambda: controller.get("/v1/endpoints"), "never took traffic")
    (endpoint,) = controller.get("/v1/endpoints")
    assert endpoint["targets"] == ["gpu-1:8100"]

    controller.configure(low=2)
    controller.signal(signal.SIGHUP)
    deliver(controller, token, 3, running, 1.0)
    eventually(lambda: controller.get("/v1/status")["pools"][0]["target"] == 2, "the reload took no effect")
    controller.config.write_text("[controller]\nlisten = 7\n")
    controller.signal(signal.SIGHUP)
    eventually(lambda: not controller.get("/v1/status")["config_reload_ok"], "the bad reload was not told")
    assert controller.get("/v1/status")["pools"][0]["target"] == 2

    status = controller.get("/v1/status")
    assert [job["name"] for job in status["jobs"] if job["failures"]] == []
    assert controller.stop() == 0
    assert "Traceback" not in controller.said()


def test_a_killed_controller_comes_back_with_the_recent_past_and_a_higher_term(controller: ControllerProcess) -> None:
    """Its tokens work on, its memory of the last minutes is read anew, and old commands lose to the new term."""
    controller.start()
    controller.until_ready()
    token = enroll(controller)
    for number in (1, 2, 3):
        deliver(controller, token, number, host_state(2), 1.0)
    before = controller.get("/v1/status")["epoch"]
    operator = (controller.folder / "operator.token").read_text()

    controller.signal(signal.SIGKILL)
    controller.ended()
    controller.start()
    controller.until_ready()

    assert controller.get("/v1/status")["epoch"] == before + 1
    assert "readings=3" in controller.said()
    assert (controller.folder / "operator.token").read_text() == operator
    assert deliver(controller, token, 3, host_state(2), 1.0).json()["acknowledged"] == [
        {"boot_id": "b", "first": 3, "last": 3}
    ]
    assert controller.get("/v1/status")["summary"]["reports"] == {"stored": 0, "duplicate": 1}


def test_a_second_start_by_mistake_leaves_the_running_controller_in_office(controller: ControllerProcess) -> None:
    """It finds the port taken before it touches the database, so it begins no term that would end the first one's."""
    controller.start()
    controller.until_ready()
    before = controller.get("/v1/status")["epoch"]

    second = controller.started_again()

    assert second.returncode == 1
    assert "is taken by another program" in second.stderr
    ticks = controller.get("/v1/status")["jobs"][0]["runs"]
    eventually(lambda: controller.get("/v1/status")["jobs"][0]["runs"] > ticks, "no tick any more")
    status = controller.get("/v1/status")
    assert (status["epoch"], status["jobs"][0]["failures"]) == (before, 0)


def test_commands_say_what_they_did_and_what_is_wrong(controller: ControllerProcess) -> None:
    """The token alone goes to stdout; a mistake is one line with the remedy."""
    controller.start()
    controller.until_ready()
    first = enroll(controller)

    twice = controller.command("host", "enroll", H1)
    assert (twice.returncode, twice.stdout) == (1, "")
    assert "tidegate host rotate gpu-1" in twice.stderr
    assert controller.command("host", "rotate", H1).stdout.strip() not in ("", first)
    assert "gpu-1\tenrolled\tnever seen" in controller.command("host", "list").stdout
    assert controller.command("host", "revoke", H1).stdout == ""
    assert controller.command("user", "add", "ann", "--role", "operator").stdout.startswith("tgu_")
    bad_name = controller.command("host", "enroll", "a b")
    assert bad_name.returncode == 1
    assert len(bad_name.stderr.strip().splitlines()) == 1


def test_a_port_that_is_taken_is_one_line_with_the_remedy(controller: ControllerProcess) -> None:
    """And the exit status 1."""
    with socket.create_server(("127.0.0.1", controller.port)):
        controller.start()

        assert controller.ended() == 1
    (line,) = [line for line in controller.said().splitlines() if line.startswith("tidegate:")]
    assert f"port {controller.port}" in line
    assert "stop it or set another" in line


@pytest.mark.parametrize("database", ["postgresql://nobody:%zz@x/db", "hello world"])
def test_a_database_address_that_cannot_be_read_ends_the_start(tmp_path: Path, database: str) -> None:
    """Waiting would not help; the password is not repeated."""
    made = ControllerProcess(tmp_path, database)
    made.start()

    assert made.ended() in (1, 78)
    assert "Traceback" not in made.said()


def test_a_database_that_is_down_is_waited_for(tmp_path: Path) -> None:
    """One clear line with the remedy; a stop ends the wait at once."""
    made = ControllerProcess(tmp_path, "postgresql://tidegate@127.0.0.1:1/tidegate")
    made.start()
    eventually(lambda: "waiting" in made.said(), "said nothing")

    began = time.monotonic()
    assert made.stop() == 0
    assert time.monotonic() - began < 5
    assert "is it running" in made.said()
    assert made.said().count("does not answer") == 1


def test_tables_of_an_older_revision_are_waited_for_until_somebody_migrates(tmp_path: Path, empty_dsn: str) -> None:
    """The controller goes on by itself afterwards: nothing has to be started again."""
    made = ControllerProcess(tmp_path, empty_dsn)
    made.start()
    try:
        eventually(lambda: "tidegate db migrate" in made.said(), "did not say what to do")
        database = open_database(empty_dsn)
        migrate.upgrade(database)
        database.close()
        made.until_ready()
    finally:
        made.stop()


def test_systemd_hears_of_readiness_and_of_the_end(controller: ControllerProcess) -> None:
    """READY only once it serves; the watchdog is fed while ticks come to an end."""
    path = controller.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(path))
        channel.settimeout(30)
        controller.start(NOTIFY_SOCKET=str(path), WATCHDOG_USEC="300000")
        heard = channel.recv(4096).decode()
        while "READY=1" not in heard or "WATCHDOG=1" not in heard:
            heard += channel.recv(4096).decode()
        assert f"serving on {controller.url}/" in heard
        assert httpx.get(f"{controller.url}/-/healthy").text == "alive\n"
        controller.signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard += channel.recv(4096).decode()
    assert controller.ended() == 0


def test_the_embedded_database_is_made_started_and_stopped_with_the_controller(state_dir: Path) -> None:
    """Without a word in the configuration; it comes up again when it is killed under us."""
    made = ControllerProcess(state_dir)
    made.start()
    try:
        made.until_ready()
        pid = int((state_dir / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
        assert Path(f"/proc/{pid}").exists()
    finally:
        assert made.stop() == 0
    assert not Path(f"/proc/{pid}").exists()
    assert "Traceback" not in made.said()
