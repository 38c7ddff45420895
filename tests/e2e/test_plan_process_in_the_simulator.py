"""The decision as a process: `tidegate plan --stdio` steers a simulated fleet as the core in this process does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tidegate.cli.core_planner import CorePlanner, line_of
from tidegate.simulate.observation import Answer, Observation
from tidegate.simulate.run import run
from tidegate.simulate.world import Faults, Span, World
from tidegate.simulate.worlds import CHAT, varying

WORLD = World(
    "process",
    varying(lambda t: 18.0 if t > 400 else 8.0, 1200, CHAT),
    1200,
    initial=3,
    start_seconds=60.0,
    fluid=True,
    faults=Faults(outage=Span(700, 60), not_a_number=Span(820, 45), restart_every=500.0),
)


@dataclass
class ProcessPlanner:
    """One process, begun anew at each restart of the simulated controller, with its memory in a file."""

    memory: Path
    name: str = "slo"
    tick_seconds: float = 15.0
    process: subprocess.Popen[bytes] | None = None

    def plan(self, seen: Observation) -> Answer:
        self.process = self.process or self.begun()
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line_of(seen) + b"\n")
        self.process.stdin.flush()
        return Answer.from_json(json.loads(self.process.stdout.readline()))

    def restart(self, *, memory_lost: bool) -> None:
        self.stop()
        if memory_lost:
            self.memory.unlink()

    def begun(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tidegate", "plan", "--stdio", "--memory", str(self.memory)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def stop(self) -> None:
        if self.process and self.process.stdin:
            self.process.stdin.close()
            assert self.process.wait(30) == 0
            assert self.process.stdout
            self.process.stdout.close()
        self.process = None


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ProcessPlanner]:
    planner = ProcessPlanner(tmp_path / "memory.json")
    yield planner
    planner.stop()


def test_the_process_and_the_core_play_the_same_game(process: ProcessPlanner) -> None:
    for world in (WORLD, replace(WORLD, faults=replace(WORLD.faults, memory_lost=True))):
        there, here = run(world, process, 3), run(world, CorePlanner(), 3)
        assert there == here
        process.stop()
        process.memory.unlink()
