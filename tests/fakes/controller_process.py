"""The real controller as a process on loopback, with a state folder and a configuration of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from fakes.agent_process import eventually, free_port

ROOT = Path(__file__).resolve().parents[2]
_CONFIG = """\
[controller]
listen = "127.0.0.1:{port}"
state_dir = "{folder}"
{database}
mode = "{mode}"
tick_seconds = 1
lease_seconds = {lease}

[[service]]
name = "chat"

[[pool]]
name = "base"
service = "chat"
min = {low}
max = 2
price_per_gpu_hour = 2.10
[[pool.flavour]]
template = "engine"
hosts = ["gpu-1"]

[[host]]
name = "gpu-1"
gpus = 2
"""


class ControllerProcess:
    """One controller; `start` may be called again after it ended or was killed."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder, self.port = folder, free_port()
        self.database = database
        self.config = folder / "controller.toml"
        self.log = folder / "controller.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, low: int = 1, mode: str = "act", lease: int = 15) -> None:
        """Write the configuration file."""
        database = f'database = "{self.database}"' if self.database else ""
        if urlsplit(self.database).password:  # a configuration file may hold none
            secret = self.folder / "database.address"
            secret.write_text(self.database)
            secret.chmod(0o600)
            database = f'database_file = "{secret}"'
        text = _CONFIG.format(port=self.port, folder=self.folder, database=database, mode=mode, low=low, lease=lease)
        self.config.write_text(text)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **environment: str) -> None:
        """Start it; it may still be waiting for something."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "controller", "--config", str(self.config)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT / "daemon"), "NO_COLOR": "1", **environment},
            )

    def started_again(self) -> subprocess.CompletedProcess[str]:
        """Start another one with the same configuration and wait for its end."""
        return subprocess.run(
            [sys.executable, "-m", "tidegate", "controller", "--config", str(self.config)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT / "daemon")},
        )

    def until_ready(self) -> None:
        """Wait for the first tick."""
        eventually(lambda: self.answers("/-/ready"), f"never ready: {self.said()}", seconds=40)

    def answers(self, path: str) -> bool:
        try:
            return httpx.get(f"{self.url}{path}", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", timeout=5).json()

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self, seconds: float = 30) -> int:
        """Wait for its end; the exit status."""
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> int:
        """Ask for the end and wait for it."""
        if self.process is None or self.process.poll() is not None:
            return 0
        self.signal(signal.SIGTERM)
        return self.ended()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `tidegate` against it, with its own operator token."""
        where = ["--controller", self.url]
        token = [] if words[:2] == ("host", "list") else ["--token-file", str(self.folder / "operator.token")]
        return subprocess.run(
            [sys.executable, "-m", "tidegate", *words, *where, *token],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "daemon")},
        )
