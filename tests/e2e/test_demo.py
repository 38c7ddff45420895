"""`tidegate demo` from the outside: a short day keeps every promise, and however it ends nothing is left running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.leftovers import none_left, processes_of

MARK = "TIDEGATE_TEST_DEMO"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the database's own user may enter, too (pytest's are closed)."""
    found = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


def begin(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidegate", "demo", "--state", str(folder / "state"), *options]
    environment = {**os.environ, MARK: folder.name, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[str], seconds: float) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            process.kill()
    return process.returncode, out, err


def eventually(done: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def engines(folder: Path) -> list[str]:
    return [command for command in processes_of(folder, folder.name).values() if "engine_server" in command]


def postgres(folder: Path) -> list[str]:
    return [command for command in processes_of(folder, folder.name).values() if "postgres" in command]


@pytest.mark.timeout(150)
def test_a_short_day_keeps_every_promise_and_leaves_nothing_running(folder: Path) -> None:
    """Burst from 0 up and back to 0, nothing lost, a cost, the alert fired and resolved, webhooks verified."""
    code, out, err = finish(begin(folder, "--once", "--json", "--minutes", "1"), 140)
    assert out, err
    summary = json.loads(out)
    assert [verdict["text"] for verdict in summary["verdicts"] if not verdict["ok"]] == []
    assert (code, summary["ok"]) == (0, True)
    assert summary["requests"]["lost"] == 0
    assert summary["requests"]["finished"] == summary["requests"]["arrived"] > 50_000
    burst = [size["ready"] for size in summary["pools"]["burst"]]
    assert (burst[0], burst[-1]) == (0, 0)
    assert max(burst) >= 2
    assert summary["cost"]["total"]["state"] == "estimated"
    assert [each["total"]["state"] for each in summary["billed"]] == ["partial", "final", "final"]
    lines = {each["line"] for each in summary["billed"][-1]["others"]}
    assert {"tax", "credit", "unattributed_host"} <= lines
    assert 0.2 < float(summary["cost"]["total"]["per_million_tokens"]) < 10
    assert none_left(folder, folder.name) == {}


@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_leaves_nothing_running(folder: Path, number: signal.Signals) -> None:
    """Engines, agents, controller and database are there before, and gone after."""
    process = begin(folder, "--minutes", "10")
    eventually(lambda: engines(folder) and postgres(folder), 45)
    process.send_signal(number)
    code, out, err = finish(process, 30)
    assert code == 0, err
    assert "nothing is left running" in out
    assert none_left(folder, folder.name) == {}


@pytest.mark.timeout(90)
def test_when_a_part_dies_the_demo_says_which_and_leaves_nothing_running(folder: Path) -> None:
    """An agent that is killed ends the demo with a line that names it."""
    process = begin(folder, "--minutes", "10")
    eventually(lambda: engines(folder), 45)
    agent = next(pid for pid, command in processes_of(folder).items() if "base-1.toml" in command)
    os.kill(agent, signal.SIGKILL)
    code, _, err = finish(process, 30)
    assert code == 1
    assert "base-1" in err
    assert none_left(folder, folder.name) == {}


def test_a_folder_with_something_in_it_is_refused(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state" / "mine").touch()
    code, _, err = finish(begin(folder, "--once"), 20)
    assert code == 1
    assert "empty or absent" in err
