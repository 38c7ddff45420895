"""The demo's stage: a controller, an agent for each simulated host, GPUs, traffic and a receiver, up and down again.

Real processes on loopback, all on one played clock. Whatever happens, `stop` leaves nothing running.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event
from types import TracebackType
from typing import Self

from tidegate.demo import configuration
from tidegate.demo.configuration import Addresses
from tidegate.demo.controller_client import ControllerClient
from tidegate.demo.gateway import Gateway
from tidegate.demo.gpus import Gpus, SimulatedHost
from tidegate.demo.pace import Pace
from tidegate.demo.pages import PageServer
from tidegate.demo.processes import MARK, Child, end, spawn, sweep
from tidegate.demo.receiver import PATH, Receiver
from tidegate.demo.traffic import Day, Traffic
from tidegate.runtime.clock import VARIABLE, ScaledClock, SystemClock
from tidegate.runtime.errors import Permanent, TidegateError

HOSTS = {"base-1": 2, "burst-1": 3, "burst-2": 3}
"""Simulated hosts and their GPUs."""
PATIENCE = timedelta(seconds=8)
"""Real time that a process has to end by itself."""
IMPORTED_WITHIN = timedelta(seconds=60)
"""Real time that a bill's import may take."""
READY_WITHIN = timedelta(seconds=60)
"""Real time in which the controller has to answer at its first start, since it makes a database first, and an agent."""
_STEP = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What is played: the pace, when played time begins, when traffic does, and how much of it."""

    pace: Pace
    epoch: datetime
    doors: datetime
    """The first request may arrive then; traffic follows the hours of this day."""
    seed: int = 1
    scale: float = 1.0
    folder: Path | None = None
    """Where everything is kept; None: a temporary folder that goes with the stage."""
    keep: bool = False
    """Leave the temporary folder, too."""


class Stage:
    """Everything of one demo; a context manager that starts and stops it."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan = plan
        self.mark = secrets.token_hex(8)
        self.folder = _folder(plan.folder)
        self.clock = ScaledClock(SystemClock().now().timestamp(), plan.epoch, plan.pace.speed)
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self.receiver = Receiver(self.clock, secret, 60 * plan.pace.drain_grace)
        port = _free_block(1 + len(HOSTS) + sum(HOSTS.values()))
        self.hosts = _hosts(port + 1 + len(HOSTS))
        self._pages = (PageServer(Gpus(self.clock, self.hosts).page), PageServer(self.receiver.page))
        self.addresses = Addresses(
            folder=self.folder,
            controller_port=port,
            agent_ports={name: port + 1 + number for number, name in enumerate(HOSTS)},
            gpus_url=f"{self._pages[0].url}/gpus",
            receiver_url=f"{self._pages[1].url}{PATH}",
        )
        self.addresses.secret_file.write_text(secret)
        self.client = ControllerClient(
            self.addresses.controller_url, self.addresses.controller_state / "operator.token"
        )
        midnight = plan.doors.replace(hour=0, minute=0, second=0, microsecond=0)
        traffic = Traffic(Day(midnight, plan.scale), Random(plan.seed), plan.doors.timestamp())  # noqa: S311 - no secret
        self.gateway = Gateway(self.clock, traffic, lambda: f"{self.addresses.controller_url}/v1/endpoints")
        self._controller: Child | None = None
        self._agents: list[Child] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            self.stop(failed=isinstance(error, TidegateError))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(failed=isinstance(error, TidegateError))

    def start(self) -> None:
        """Bring everything up in order; raises Permanent with a process' last words when one ends early."""
        for pages in self._pages:
            pages.start()
        (self.folder / "controller.toml").write_text(
            configuration.controller_file(self.addresses, self.hosts, self.plan.pace)
        )
        self.start_controller()
        for host in self.hosts:
            self._start_agent(host)
        self.gateway.start()

    def start_controller(self) -> None:
        """Start the controller and wait until it answers."""
        self._controller = self._spawn("controller", "controller", self.folder / "controller.toml")
        _until(self.client.ready, self._controller)

    def _start_agent(self, host: SimulatedHost) -> None:
        """Base hosts are waited for: were burst hosts heard first, burst would stand in for a base without any."""
        self.addresses.token_file(host.name).write_text(self.client.enroll(host.name))
        file = self.folder / f"{host.name}.toml"
        file.write_text(configuration.agent_file(self.addresses, host, self.plan.pace))
        agent = self._spawn(host.name, "agent", file)
        self._agents.append(agent)
        if host.name.startswith(configuration.BASE):
            _until(lambda: host.name in self.client.heard(), agent)

    def import_bill(self, name: str, text: str) -> None:
        """Import a bill by the command that people use; raises Permanent with its last words when it refuses."""
        file = self.folder / name
        file.write_text(text)
        token = self.addresses.controller_state / "operator.token"
        command = [sys.executable, "-m", "tidegate", "bill", "import", str(file), "--token-file", str(token)]
        done = subprocess.run(
            [*command, "--controller", self.addresses.controller_url],
            env={**os.environ, MARK: self.mark},
            capture_output=True,
            text=True,
            timeout=IMPORTED_WITHIN.total_seconds(),
            check=False,
        )
        if done.returncode:
            raise Permanent(f"the demo's bill {name} was not imported: {(done.stderr or done.stdout).strip()[-500:]}")

    def kill_controller(self) -> None:
        """SIGKILL: what a machine that loses its power does to it."""
        if self._controller is not None:
            self._controller.process.kill()
            self._controller.process.wait()

    def check(self) -> None:
        """Raise Permanent when the controller or an agent has ended by itself."""
        for child in [*self._agents, *([self._controller] if self._controller else [])]:
            child.check()

    def stop(self, *, failed: bool = False) -> None:
        """End everything: the gateway, the agents, the controller with its database, then whatever is left.

        After a failure the temporary folder stays: the error names a log in it.
        """
        with ExitStack() as stack:  # each step runs whatever became of the one before
            if self.plan.folder is None and not self.plan.keep and not failed:
                stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            stack.callback(sweep, self.mark, self.folder, PATIENCE)
            if self._controller is not None:
                stack.callback(end, [self._controller], PATIENCE)
            stack.callback(end, self._agents, PATIENCE)
            for pages in self._pages:
                stack.callback(pages.stop)
            stack.callback(self.client.close)
            stack.callback(self.gateway.stop)

    def _spawn(self, name: str, role: str, file: Path) -> Child:
        arguments = [sys.executable, "-m", "tidegate", role, "--config", str(file)]
        environment = {VARIABLE: self.clock.text(), MARK: self.mark, "PYTHONUNBUFFERED": "1"}
        return spawn(name, arguments, environment, self.folder / f"{name}.log")


def _folder(wanted: Path | None) -> Path:
    """A folder that the database's own user may enter, too."""
    if wanted is None:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    else:
        folder = wanted.absolute()
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
        if not folder.is_dir() or any(folder.iterdir()):
            raise Permanent(f"--state {folder}: the demo needs a folder that is empty or absent")
    folder.chmod(0o755)
    return folder


def _until(answers: Callable[[], bool], child: Child) -> None:
    real, never, left = SystemClock(), Event(), READY_WITHIN
    while not answers():
        child.check()
        if left <= timedelta():
            raise Permanent(f"the {child.name} does not answer; see {child.log}")
        real.wait(never, _STEP)
        left -= _STEP


def _free_block(count: int) -> int:
    """The first of so many ports in a row that are free on loopback.

    Below the range from which Linux takes the ports of outgoing connections: none of ours may be one a moment later.
    """
    for _ in range(100):
        first = 20_000 + secrets.randbelow(12_000)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise Permanent(f"no {count} free ports in a row between 20000 and 32000 on 127.0.0.1")


def _hosts(first_port: int) -> list[SimulatedHost]:
    hosts = []
    for name, gpus in HOSTS.items():
        hosts.append(SimulatedHost(name, gpus, first_port))
        first_port += gpus
    return hosts
