"""Engines among the processes: found by command line and socket, asked once, and nothing else is ever asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import pytest

from tidegate.model.fleet import ReplicaState
from tidegate.model.gpu import GpuProcess, GpuReading, GpuUuid
from tidegate.model.holders import HostProcess
from tidegate.model.missing import Gap, Missing
from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget, UnitStatus
from tidegate.observe.engine_finder import EngineFinder
from tidegate.observe.gpu_holders import GpuHolders
from tidegate.observe.host_processes import HostProcesses
from tidegate.observe.proc_text import Listener


@dataclass
class Machine(HostProcesses):
    """Processes of a test: (command line, sockets held); a hidden one shows neither."""

    running: dict[int, tuple[str, set[int]]] = field(default_factory=dict)
    listening: list[Listener] = field(default_factory=list)
    began: dict[int, int] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    groups: dict[str, set[int]] = field(default_factory=dict)
    searched: list[int] = field(default_factory=list)

    def run(self, pid: int, line: str, port: int = 0, address: str = "127.0.0.1") -> None:
        self.running[pid] = (line, {pid * 10} if port else set())
        if port:
            self.listening.append(Listener(address, port, pid * 10))

    def listeners(self) -> list[Listener]:
        return self.listening

    def pids(self) -> list[int]:
        return list(self.running)

    def command(self, pid: int) -> tuple[str, ...]:
        return tuple(self.running[pid][0].split())

    def process(self, pid: int) -> HostProcess | None:
        if pid not in self.running:
            return None
        return HostProcess(pid, self.parents.get(pid, 1), 1, self.began.get(pid, pid))

    def sockets(self, pid: int) -> frozenset[int]:
        self.searched.append(pid)
        return frozenset(self.running[pid][1]) if pid in self.running else frozenset()

    def group_members(self, group: str) -> set[int]:
        return self.groups.get(group, set())


@dataclass
class Pages:
    """What each address answers; remembers what was asked."""

    states: dict[str, EngineState] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, target: EngineTarget, now: datetime) -> EngineReading:
        self.asked.append(target.url)
        return EngineReading(target.name, None, self.states.get(target.url, EngineState.READY), now)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def pages() -> Pages:
    return Pages()


def found(finder: EngineFinder, now: datetime, taken: frozenset[int] = frozenset()) -> dict[str, str]:
    return {target.name: target.url for target in finder.look(now, taken).targets}


def test_an_engine_is_asked_once_and_stays_while_it_listens(machine: Machine, pages: Pages, now: datetime) -> None:
    machine.run(7, "vllm serve m --port 8100", 8100)
    machine.run(8, "llama-server", 8080, "0.0.0.0")
    finder = EngineFinder(machine, pages)
    expected = {"vllm-8100": "http://127.0.0.1:8100/metrics", "llama.cpp-8080": "http://127.0.0.1:8080/metrics"}
    assert [found(finder, now) for _ in range(3)] == [expected] * 3
    assert sorted(pages.asked) == sorted(expected.values())
    del machine.running[7]
    assert list(found(finder, now)) == ["llama.cpp-8080"]


def test_no_port_but_the_one_of_the_command_line_is_ever_asked(machine: Machine, pages: Pages, now: datetime) -> None:
    """An inner port (of NCCL, of a store) is not made for HTTP; a stranger's default port is a stranger's."""
    machine.run(7, "vllm serve m", 29500)
    machine.run(9, "nginx", 8000)
    machine.run(10, "python -m http.server 30000", 30000)
    machine.listening.append(Listener("127.0.0.1", 8000, 999))  # somebody's whom we may not see
    assert found(EngineFinder(machine, pages), now) == {}
    assert pages.asked == []


def test_a_port_that_somebody_named_is_left_to_him(machine: Machine, pages: Pages, now: datetime) -> None:
    machine.run(7, "vllm serve m", 8000)
    assert found(EngineFinder(machine, pages), now, frozenset({8000})) == {}
    assert pages.asked == []


def test_what_answers_as_no_engine_is_never_asked_again(machine: Machine, pages: Pages, now: datetime) -> None:
    machine.run(7, "vllm serve m", 8000)
    pages.states["http://127.0.0.1:8000/metrics"] = EngineState.MALFORMED
    finder = EngineFinder(machine, pages)
    assert [found(finder, now) for _ in range(40)] == [{}] * 40
    assert len(pages.asked) == 1
    machine.began[7] = 9999  # another process under the same number
    pages.states.clear()
    assert list(found(finder, now)) == ["vllm-8000"]


def test_one_that_is_silent_is_asked_again_after_growing_pauses(machine: Machine, pages: Pages, now: datetime) -> None:
    machine.run(7, "vllm serve m", 8000)
    pages.states["http://127.0.0.1:8000/metrics"] = EngineState.HANGING
    finder = EngineFinder(machine, pages)
    for _ in range(100):
        found(finder, now)
    assert len(pages.asked) == 6  # looks 0, 3, 8, 17, 34, 67
    pages.states.clear()
    for _ in range(33):
        found(finder, now)
    assert list(found(finder, now)) == ["vllm-8000"]


@pytest.mark.parametrize("state", [EngineState.DISABLED, EngineState.UNAUTHORIZED])
def test_one_whose_metrics_are_off_or_locked_is_shown_as_such(
    machine: Machine, pages: Pages, now: datetime, state: EngineState
) -> None:
    machine.run(7, "python -m sglang.launch_server", 30000)
    pages.states["http://127.0.0.1:30000/metrics"] = state
    assert list(found(EngineFinder(machine, pages), now)) == ["sglang-30000"]


def test_the_second_path_is_tried_where_the_first_is_not_there(machine: Machine, pages: Pages, now: datetime) -> None:
    machine.run(7, "trtllm-serve m", 8000)
    pages.states["http://127.0.0.1:8000/prometheus/metrics"] = EngineState.DISABLED
    assert found(EngineFinder(machine, pages), now) == {"tensorrt-llm-8000": "http://127.0.0.1:8000/metrics"}


def test_too_many_are_cut_and_said(machine: Machine, pages: Pages, now: datetime) -> None:
    for pid in range(100, 180):
        machine.run(pid, f"vllm serve m --port {8000 + pid}", 8000 + pid)
    look = EngineFinder(machine, pages).look(now, frozenset())
    assert len(look.targets) == 64
    assert look.problems == ("80 engines among the processes: the first 64 are read",)


def gpu(index: int, *pids: int) -> GpuReading:
    processes = tuple(GpuProcess(pid, 1e9) for pid in pids)
    return GpuReading(GpuUuid(f"GPU-{index}"), index, "H200", up=True, processes=processes)


def target(name: str, port: int, replica: str = "") -> EngineTarget:
    return EngineTarget(EngineName(name), f"http://localhost:{port}/metrics", replica_id=replica)


def test_the_gpus_of_an_engine_by_the_process_that_listens_on_its_port(machine: Machine) -> None:
    machine.run(7, "vllm serve m", 8000)
    machine.run(71, "VLLM::Worker_TP0")
    machine.run(72, "VLLM::Worker_TP1")
    machine.parents |= {71: 7, 72: 71}
    holders = GpuHolders(machine)
    gpus = [gpu(0, 71), gpu(1, 72), gpu(2)]
    assert holders.look([target("a", 8000), target("b", 8001)], (), gpus) == {"a": (0, 1)}
    machine.searched.clear()
    holders.look([target("a", 8000)], (), gpus)
    assert machine.searched == [7]  # whose socket it is was remembered


def test_the_gpus_of_our_own_units(machine: Machine) -> None:
    """A systemd unit's processes are another user's: its control group tells them without a look at any."""
    machine.run(9, "sh -c vllm")
    machine.run(91, "vllm")
    machine.parents |= {91: 9}
    machine.groups["/system.slice/vllm@0.service"] = {50, 51}
    units = [
        UnitStatus("r-1", ReplicaState.LOADING, main_pid=9),
        UnitStatus("r-2", ReplicaState.LOADING, control_group="/system.slice/vllm@0.service"),
    ]
    targets = [target("r-1", 8100, "r-1"), target("r-2", 8101, "r-2")]
    assert GpuHolders(machine).look(targets, units, [gpu(0, 91), gpu(1, 51)]) == {"r-1": (0,), "r-2": (1,)}


def test_without_a_list_of_processes_nothing_is_looked_for(machine: Machine) -> None:
    silent = GpuReading(GpuUuid("GPU-0"), 0, "H200", up=True, processes=Missing(Gap.NOT_SUPPORTED))
    assert GpuHolders(machine).look([target("a", 8000)], (), [silent, gpu(1)]) == {}
    assert machine.searched == []
