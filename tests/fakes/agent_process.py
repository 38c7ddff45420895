"""The real agent as a process on loopback, on a played clock, with an engine template of tiny engines."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
from fakes.agent_parts import NOON

from tidegate.act import proc
from tidegate.act.records import Records
from tidegate.runtime.clock import VARIABLE, ScaledClock

ROOT = Path(__file__).resolve().parents[2]
SPEED = 20.0
_CONFIG = """\
[agent]
name = "gpu-1"
listen = "127.0.0.1:{port}"
controllers = ["{controller}"]
token_file = "{folder}/token"
state_dir = "{folder}/state"
gpu_source = "none"

[[engine]]
name = "own"
url = "{engine}"
gpus = 1

[[template]]
name = "vllm"
kind = "process"
command = ["{python}", "{tiny}", "{{port}}", "{folder}/running"]
drain_grace_seconds = 10
"""


def eventually(found: Callable[[], object], why: str, seconds: float = 20.0) -> None:
    """Wait until it is so; fails with `why` when it never is."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found():
            return
        time.sleep(0.05)
    raise AssertionError(why)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class AgentProcess:
    """One host's agent; `start` may be called again after it ended or was killed."""

    def __init__(self, folder: Path, controller: str, engine: str) -> None:
        self.folder, self.port = folder, free_port()
        self.config = folder / "agent.toml"
        (folder / "running").mkdir()
        (folder / "token").write_text("tgh_good\n")
        (folder / "token").chmod(0o600)
        self.config.write_text(
            _CONFIG.format(
                port=self.port,
                controller=controller,
                engine=engine,
                folder=folder,
                python=sys.executable,
                tiny=ROOT / "tests" / "fakes" / "tiny_engine.py",
            )
        )
        clock = ScaledClock(time.time(), NOON, SPEED)
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT / "daemon"), VARIABLE: clock.text()}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.folder / "agent.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "agent", "--config", str(self.config)],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        eventually(lambda: self.get("/-/ready").startswith("ready"), f"not ready: {self.log()}")

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(15.0)

    def get(self, path: str) -> str:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False).text
        return ""

    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def unit_pid(self, name: str) -> int:
        record = Records(self.folder / "state" / "units", "process").get(name)
        return record.pid if record is not None else 0

    def in_flight(self, port: int, requests: int) -> None:
        (self.folder / "running" / str(port)).write_text(str(requests))

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10.0)
        for record in Records(self.folder / "state" / "units", "process").all():
            proc.send(proc.session_of(record.pid, record.ticks), signal.SIGKILL)
