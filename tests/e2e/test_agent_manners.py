"""The agent as a process without a controller: its doors, a list of engines, and engines among the processes."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import bcrypt
import httpx
import pytest
from fakes.agent_process import ROOT, eventually, free_port
from fakes.certificates import Pair, authority, needs_openssl, signed
from fakes.tiny_engine import TinyEngine

pytestmark = [pytest.mark.timeout(120), needs_openssl]

CONFIG = """\
[agent]
name = "gpu-1"
listen = "127.0.0.1:{port}"
gpu_source = "none"
interval_seconds = 1
web_config = "web.yml"
engine_files = ["lists/*.yml"]
discover = {discover}
"""
WEB = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\nbasic_auth_users:\n  prometheus: {hash}\n"
SERVER = """\
import sys
from pathlib import Path
from fakes.tiny_engine import TinyEngine
TinyEngine(int(sys.argv[sys.argv.index("--port") + 1])).serve()
"""


class Agent:
    """The process, its folder, and a client that may come in."""

    def __init__(self, folder: Path, discover: bool) -> None:
        self.folder, self.port = folder, free_port()
        self.ca: Pair = authority(folder)
        signed(folder, self.ca, "server")
        hashed = bcrypt.hashpw(b"tide", bcrypt.gensalt(4)).decode()
        (folder / "web.yml").write_text(WEB.format(hash=hashed))
        (folder / "lists").mkdir()
        (folder / "agent.toml").write_text(CONFIG.format(port=self.port, discover=str(discover).lower()))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "daemon")}
        with (folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate", "agent", "--config", str(folder / "agent.toml")],
                env=environment, stdout=log, stderr=log,
            )  # fmt: skip

    def get(self, path: str = "/metrics", password: str = "tide") -> httpx.Response | None:
        with suppress(httpx.HTTPError):
            context = ssl.create_default_context(cafile=str(self.ca.cert))
            return httpx.get(
                f"https://127.0.0.1:{self.port}{path}", verify=context, auth=("prometheus", password), trust_env=False
            )
        return None

    def shows(self, *lines: str) -> None:
        """Wait until each of the lines begins one of the metrics'."""

        def there() -> bool:
            answer = self.get()
            text = answer.text.splitlines() if answer is not None and answer.status_code == 200 else []
            return all(any(found.startswith(line) for found in text) for line in lines)

        eventually(there, f"never {lines}\n{(self.folder / 'agent.log').read_text()}")

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15.0)
        finally:
            self.process.kill()
            self.process.wait(5.0)


@pytest.fixture
def engine() -> Iterator[TinyEngine]:
    with TinyEngine() as made:
        yield made


def test_its_doors_and_its_list_change_while_it_runs(tmp_path: Path, engine: TinyEngine) -> None:
    agent = Agent(tmp_path, discover=False)
    try:
        listed = tmp_path / "lists" / "a.yml"
        listed.write_text(
            f"- targets: ['127.0.0.1:{engine.port}']\n  labels: {{pool: base, traffic: test, engine: one}}\n"
        )
        agent.shows(
            'tidegate_engine_up{engine="one",pool="base",replica="",service="",traffic="test"} 1.0',
            'tidegate_discovery_up{source="file"} 1.0',
            'tidegate_discovered_engines{source="file"} 1.0',
            "tidegate_config_last_reload_successful 1.0",
        )
        wrong, health = agent.get(password="wrong"), agent.get("/-/healthy", password="wrong")
        assert wrong is not None
        assert health is not None
        assert (wrong.status_code, health.status_code) == (401, 200)

        listed.write_text("- targets: [")
        agent.shows('tidegate_discovery_up{source="file"} 0.0', 'tidegate_engine_up{engine="one"')

        (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: server.crt}\n")
        agent.process.send_signal(signal.SIGHUP)
        agent.shows("tidegate_config_last_reload_successful 0.0")

        (tmp_path / "web.yml").write_text("")
        agent.process.send_signal(signal.SIGHUP)

        def plain() -> bool:
            with suppress(httpx.HTTPError):
                answer = httpx.get(f"http://127.0.0.1:{agent.port}/metrics", trust_env=False)
                return "tidegate_config_last_reload_successful 1.0" in answer.text
            return False

        eventually(plain, f"the door never opened\n{(tmp_path / 'agent.log').read_text()}")
    finally:
        agent.end()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc")
def test_an_engine_is_found_among_the_processes(tmp_path: Path) -> None:
    """A program called llama-server, on the port of its command line; the same program under another name is not."""
    (tmp_path / "bin").mkdir()
    for name in ("llama-server", "something-else"):
        (tmp_path / "bin" / name).write_text(SERVER)
    ports = free_port(), free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    engines = [
        subprocess.Popen([sys.executable, str(tmp_path / "bin" / name), "--port", str(port)], env=environment)
        for name, port in zip(("llama-server", "something-else"), ports, strict=True)
    ]
    agent = None
    try:
        for port in ports:
            eventually(lambda port=port: _answers(port), f"no engine on {port}")  # type: ignore[misc]
        agent = Agent(tmp_path, discover=True)
        agent.shows(
            f'tidegate_engine_up{{engine="llama.cpp-{ports[0]}",pool=""',
            'tidegate_discovery_up{source="processes"} 1.0',
        )
        answer = agent.get()
        assert answer is not None
        assert str(ports[1]) not in answer.text
    finally:
        if agent is not None:
            agent.end()
        for each in engines:
            each.kill()
            each.wait(5.0)
        shutil.rmtree(tmp_path / "bin")


def _answers(port: int) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).status_code == 200
    return False
