"""The agent as it is installed, against an engine and a controller of our own: its whole life on one host."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.agent_parts import desired, replica
from fakes.agent_process import ROOT, AgentProcess, eventually, free_port
from fakes.controller_server import ControllerServer
from fakes.tiny_engine import TinyEngine

from tidegate.act import proc
from tidegate.model.fleet import ReplicaState, Want
from tidegate.wire import DesiredReplica, ReplicaStatus

pytestmark = pytest.mark.timeout(120)


@dataclass
class World:
    agent: AgentProcess
    controller: ControllerServer
    engine: TinyEngine
    revision: int = 0

    def want(self, *replicas: DesiredReplica) -> None:
        self.revision += 1
        self.controller.want(desired(*replicas, revision=self.revision))

    def status(self, name: str) -> ReplicaStatus | None:
        state = self.controller.host_state
        return next((one for one in state.replicas if one.replica_id == name), None) if state else None

    def reaches(self, name: str, wanted: ReplicaState) -> ReplicaStatus:
        def there() -> bool:
            status = self.status(name)
            return status is not None and status.state is wanted

        eventually(there, f"{name} never {wanted}: {self.status(name)}\n{self.agent.log()}")
        found = self.status(name)
        assert found is not None
        return found

    def holes(self) -> list[tuple[str, int]]:
        """(boot, sequence) that is not stored though a later one is."""
        last: dict[str, int] = {}
        for boot, sequence in self.controller.memory.stored:
            last[boot] = max(sequence, last.get(boot, 0))
        wanted = [(boot, sequence) for boot, end in last.items() for sequence in range(1, end + 1)]
        return [key for key in wanted if key not in self.controller.memory.stored]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ControllerServer() as controller, TinyEngine() as engine:
        agent = AgentProcess(tmp_path, controller.url, engine.url)
        try:
            agent.start()
            yield World(agent, controller, engine)
        finally:
            agent.clean_up()


def burst(name: str, want: Want = Want.RUN, port: int = 0) -> DesiredReplica:
    return replica(name, want).model_copy(update={"port": port})


def test_a_replica_lives_through_start_agent_crash_and_drain(world: World) -> None:
    port = free_port()
    world.want(burst("b-1", port=port))
    world.reaches("b-1", ReplicaState.READY)
    pid = world.agent.unit_pid("b-1")
    world.agent.in_flight(port, 2)

    world.agent.end(signal.SIGKILL)
    assert proc.look(pid) is not None, "the engine outlives its agent"
    world.controller.host_state = None
    world.agent.start()
    assert world.reaches("b-1", ReplicaState.READY).in_flight is not None
    assert world.agent.unit_pid("b-1") == pid

    world.want(burst("b-1", Want.DRAIN, port=port))
    world.reaches("b-1", ReplicaState.DRAINING)
    served = len(world.controller.memory.stored)
    eventually(lambda: len(world.controller.memory.stored) > served + 4, "reports stopped")
    assert world.reaches("b-1", ReplicaState.DRAINING).in_flight == 2.0
    assert proc.look(pid) is not None, "two requests are in flight: nothing is cut"
    world.agent.in_flight(port, 0)
    assert world.reaches("b-1", ReplicaState.STOPPED).cut_requests == 0
    assert proc.look(pid) is None


def test_no_report_is_lost_while_the_controller_is_away(world: World) -> None:
    stored = world.controller.memory.stored
    eventually(lambda: len(stored) > 2, "nothing reported")
    world.controller.fault = (503, b"")
    refused = world.controller.requests
    eventually(lambda: world.controller.requests > refused + 6, "the agent gave up")
    assert 'tidegate_engine_up{engine="own"' in world.agent.get("/metrics")
    world.agent.end(signal.SIGKILL)
    world.agent.start()
    world.controller.fault = None
    boots = {boot for boot, _ in stored}
    eventually(lambda: {boot for boot, _ in stored} != boots, "nothing after the outage")
    eventually(
        lambda: world.controller.host_state and world.controller.host_state.spool_reports <= 1, "a backlog stays"
    )
    assert world.holes() == []


def test_a_bad_reload_changes_nothing_and_a_good_one_swaps_the_engines(world: World) -> None:
    good = world.agent.config.read_text()
    assert world.agent.process is not None
    world.agent.config.write_text(good + "\n[nonsense]\n")
    world.agent.process.send_signal(signal.SIGHUP)
    reload_failed = "tidegate_config_last_reload_successful 0.0"
    eventually(lambda: reload_failed in world.agent.get("/metrics"), "the failed reload is not told")
    assert 'engine="own"' in world.agent.get("/metrics")
    world.agent.config.write_text(good.replace('name = "own"', 'name = "renamed"'))
    world.agent.process.send_signal(signal.SIGHUP)
    eventually(lambda: 'engine="renamed"' in world.agent.get("/metrics"), "the new engine is not read")
    shown = world.agent.get("/metrics")
    assert 'engine="own"' not in shown
    assert reload_failed not in shown


def test_the_end_is_orderly_and_the_engines_run_on(world: World) -> None:
    world.want(burst("b-1", port=free_port()))
    world.reaches("b-1", ReplicaState.READY)
    pid = world.agent.unit_pid("b-1")
    assert world.agent.end(signal.SIGTERM) == 0
    assert proc.look(pid) is not None
    assert "Traceback" not in world.agent.log()
    assert "hangs" not in world.agent.log()
    assert world.holes() == []


def test_a_second_agent_on_the_same_state_is_refused(world: World) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "tidegate", "agent", "--config", str(world.agent.config), "--listen", "127.0.0.1:0"],
        env={"PYTHONPATH": str(ROOT / "daemon")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 1
    assert "another daemon uses" in second.stderr
    assert "Traceback" not in second.stderr


def tidegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidegate", "agent", *arguments],
        env={"PYTHONPATH": str(ROOT / "daemon")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_once_works_on_any_machine_without_a_configuration() -> None:
    done = tidegate("--once", "--interval", "0.2")
    assert done.returncode == 0
    assert "tidegate_nvml_up" in done.stdout
    assert "tidegate_collections_total 2.0" in done.stdout
    assert done.stderr == ""


def test_once_shows_the_rates_of_a_configured_engine(tmp_path: Path) -> None:
    with TinyEngine() as engine:
        config = tmp_path / "agent.toml"
        config.write_text(f'[agent]\ngpu_source = "none"\n[[engine]]\nname = "own"\nurl = "{engine.url}"\n')
        done = tidegate("--once", "--interval", "0.2", "--config", str(config))
    assert done.returncode == 0, done.stderr
    rates = [line for line in done.stdout.splitlines() if line.startswith("tidegate_generation_tokens_per_second{")]
    assert float(rates[0].split()[-1]) > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agent]\nnme = 1\nintervall = 2\n", ["nme", "intervall"]),
        ('[agent]\ncontrollers = ["http://10.0.0.5:9092"]\ntoken_file = "/no/such"\n', ["/no/such"]),
    ],
)
def test_a_wrong_configuration_ends_78_with_every_problem(tmp_path: Path, text: str, says: list[str]) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(text)
    done = tidegate("--config", str(config))
    assert done.returncode == 78
    assert all(word in done.stderr for word in says)
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_one_line_with_the_remedy() -> None:
    with TinyEngine() as engine:
        done = tidegate("--listen", f"127.0.0.1:{engine.port}")
    assert done.returncode == 1
    assert "is taken by another program" in done.stderr
    assert "Traceback" not in done.stderr
