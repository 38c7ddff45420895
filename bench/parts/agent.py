"""The real agent as a process, as `tidegate agent` runs it: eight GPUs of a driver library of our own, and engines."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from parts.bodies import ROOT

from tidegate.runtime.clock import VARIABLE, ScaledClock

GPUS = 8
_EPOCH = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_CONFIG = """\
[agent]
name = "gpu-1"
listen = "127.0.0.1:{port}"
state_dir = "{folder}/state"
"""
_ENGINE = """
[[engine]]
name = "engine-{number}"
url = "http://127.0.0.1:{port}/metrics"
"""


def build_driver(folder: Path) -> Path | None:
    """The folder with the fake libnvidia-ml.so.1; None, with a word on stderr, where there is no gcc."""
    if shutil.which("gcc") is None:
        print("gcc is absent (Debian package: gcc): the GPUs are left out", file=sys.stderr)
        return None
    source = ROOT / "tests" / "native" / "fake_nvml.c"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True)
    return folder


class AgentProcess:
    """Started by `with`. `speed` plays its clock faster; `environment` is added to the agent's own."""

    def __init__(
        self,
        folder: Path,
        engines: Sequence[int],
        driver: Path | None,
        speed: float,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.log = folder / "agent.log"
        self._config = folder / "agent.toml"
        tables = (_ENGINE.format(number=number, port=port) for number, port in enumerate(engines))
        self._config.write_text(_CONFIG.format(port=self.port, folder=folder) + "".join(tables))
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "daemon"),
            "FAKE_NVML_MACHINE": f"h200x{GPUS}",
            **_unit_environment(),
            VARIABLE: ScaledClock(time.time(), _EPOCH, speed).text(),
            **(environment or {}),
        }
        if driver is not None:
            self._environment["LD_LIBRARY_PATH"] = str(driver)

    def __enter__(self) -> AgentProcess:
        command = [sys.executable, "-m", "tidegate", "agent", "--config", str(self._config)]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(command, env=self._environment, stderr=log)
        self.pid = self._process.pid
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def collections(self) -> int:
        """How many it has made, 0 while it starts; takes a scrape."""
        try:
            found = re.search(r"^tidegate_collections_total (\S+)", scrape(self.port), re.MULTILINE)
        except OSError:
            return 0
        return int(float(found[1])) if found else 0

    def wait_for(self, collections: int, every: float) -> None:
        """Scrape it every so many seconds until it has made so many collections."""
        while self.collections() < collections:
            if self._process.poll() is not None:
                raise RuntimeError(f"the agent ended:\n{self.log.read_text()}")
            time.sleep(every)


def _unit_environment() -> dict[str, str]:
    """How the unit has memory allocated."""
    unit = (ROOT / "systemd" / "tidegate-agent.service").read_text()
    return dict(re.findall(r"^Environment=(MALLOC_\w+)=(\S+)$", unit, re.MULTILINE))


def scrape(port: int) -> str:
    """One scrape as Prometheus makes it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: bytes = answer.read()
    return text.decode()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
