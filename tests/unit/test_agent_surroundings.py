"""Engines from every source as one list, and the GPUs that their processes hold, where they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fakes.agent_parts import NOON, FakeEngines, FakeGpus, ManualClock, reading

from tidegate.agent.collect import Collector, Look, Pace
from tidegate.agent.packing import Around, host_state, snapshot
from tidegate.agent.surroundings import Surroundings
from tidegate.model.gpu import GpuReading
from tidegate.model.reading import EngineName, GpuCountSource, HostName
from tidegate.model.snapshot import SourceState, SpoolState
from tidegate.model.target import EngineSource, EngineTarget, Found, UnitStatus
from tidegate.model.vocabulary import TrafficClass


def target(name: str, url: str = "", **more: object) -> EngineTarget:
    return replace(EngineTarget(EngineName(name), url or f"http://127.0.0.1:8000/{name}"), **more)  # type: ignore[arg-type]


@dataclass
class Files:
    """A list of engines that the test writes."""

    found: Found = field(default_factory=Found)
    watched: bool = True

    def use(self, patterns: Sequence[Path]) -> None:
        self.watched = bool(patterns)

    def look(self) -> Found:
        return self.found


@dataclass
class Processes:
    """Processes of a test; remembers which ports were taken."""

    found: Found = field(default_factory=Found)
    gpus: dict[EngineName, tuple[int, ...]] = field(default_factory=dict)
    taken: Set[int] = frozenset()
    asked: list[str] = field(default_factory=list)

    def engines(self, now: datetime, taken: Set[int]) -> Found:
        self.taken = taken
        return self.found

    def held(
        self, targets: Sequence[EngineTarget], units: Sequence[UnitStatus], gpus: Sequence[GpuReading]
    ) -> dict[EngineName, tuple[int, ...]]:
        self.asked = [each.name for each in targets]
        return {name: indices for name, indices in self.gpus.items() if name in self.asked}


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def around(files: Files, processes: Processes) -> Surroundings:
    return Surroundings(files, processes, discover=True)


@pytest.fixture
def collector() -> Iterator[Collector]:
    engines = FakeEngines(lambda target, now: reading(target.name, now, tokens=1.0))
    made = Collector(HostName("here"), FakeGpus(), engines, ManualClock(), Pace())
    yield made
    made.close()


def names(targets: Sequence[EngineTarget]) -> list[str]:
    return [each.name for each in targets]


def test_who_named_an_engine_first_keeps_it(around: Surroundings, files: Files, processes: Processes) -> None:
    own = [target("own", "http://localhost:8000/metrics"), target("same", "http://127.0.0.1:8009/m")]
    managed = [target("r-1", "http://127.0.0.1:8100/metrics"), target("same", "http://127.0.0.1:8101/m")]
    files.found = Found(
        (
            target("127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),  # the address of `own`
            target("r-1", "http://10.0.0.9:9999/metrics"),  # the name of a replica
            target("listed", "http://127.0.0.1:8200/metrics"),
        )
    )
    processes.found = Found(
        (target("vllm-8200", "http://[::1]:8200/metrics"), target("vllm-8300", "http://127.0.0.1:8300/metrics"))
    )
    around.targets(own, managed)
    around.look(None, (), NOON)
    found = around.targets(own, managed)
    assert sorted(names(found)) == ["listed", "own", "r-1", "same", "vllm-8300"]
    assert {each.name: each.url for each in found}["same"] == "http://127.0.0.1:8009/m"
    assert processes.taken == {8000, 8009, 8100, 8200}


def test_sources_tell_how_they_do(around: Surroundings, files: Files, processes: Processes) -> None:
    files.found = Found((target("a"),), ("e.yml: line 3: is not YAML",))
    around.targets((), ())
    around.look(None, (), NOON)
    assert around.sources() == {
        EngineSource.FILE: SourceState(ok=False, engines=1, problems=("e.yml: line 3: is not YAML",)),
        EngineSource.PROCESSES: SourceState(),
    }
    around.use((), discover=False)
    assert around.sources() == {}


def test_what_was_found_goes_when_discovery_is_turned_off(around: Surroundings, processes: Processes) -> None:
    processes.found = Found((target("vllm-8300"),))
    around.look(None, (), NOON)
    assert names(around.targets((), ())) == ["vllm-8300"]
    around.use((), discover=False)
    around.look(None, (), NOON)
    assert around.targets((), ()) == []


def collected(collector: Collector, around: Surroundings, *own: EngineTarget) -> Look:
    return around.counted(collector.collect(around.targets(own, ()), ()))


def test_processes_tell_the_gpus_of_an_engine_and_say_so(
    collector: Collector, around: Surroundings, processes: Processes
) -> None:
    seen, blind = target("seen", "http://127.0.0.1:8001/m", gpus=8), target("blind", "http://127.0.0.1:8002/m", gpus=8)
    processes.gpus = {EngineName("seen"): (2, 3)}
    collected(collector, around, seen, blind)
    around.look(None, (), NOON)
    look = collected(collector, around, seen, blind)
    shown = snapshot(look, timedelta(minutes=1), Around()).engines
    assert (shown[EngineName("seen")].gpus, shown[EngineName("seen")].gpus_source) == (2, GpuCountSource.PROCESSES)
    assert (shown[EngineName("blind")].gpus, shown[EngineName("blind")].gpus_source) == (
        8,
        GpuCountSource.CONFIGURATION,
    )
    state = {each.name: each for each in host_state(look, (), (0, 0), SpoolState()).engines}
    assert (state["seen"].gpus, state["seen"].gpu_indices) == (2, [2, 3])
    assert (state["blind"].gpus, state["blind"].gpu_indices) == (8, [])


def test_the_engines_own_word_goes_first_and_the_named_indices_stay(around: Surroundings, processes: Processes) -> None:
    own = target("own", gpu_indices=(0, 1))
    engines = FakeEngines(
        lambda target, now: replace(reading(target.name, now), gpus=4, gpus_source=GpuCountSource.ENGINE)
    )
    collector = Collector(HostName("here"), FakeGpus(), engines, ManualClock(), Pace())
    processes.gpus = {EngineName("own"): (5,)}
    around.targets((own,), ())
    around.look(None, (), NOON)
    look = collected(collector, around, own)
    collector.close()
    (found,) = look.reading.engines
    assert (found.gpus, found.gpus_source) == (4, GpuCountSource.ENGINE)
    assert look.targets[0].gpu_indices == (0, 1)


def test_an_engine_that_restarts_still_holds_what_it_held(
    collector: Collector, around: Surroundings, processes: Processes
) -> None:
    own = target("own")
    processes.gpus = {EngineName("own"): (0, 1)}
    around.targets((own,), ())
    around.look(None, (), NOON)
    processes.gpus = {}
    around.look(None, (), NOON)
    assert collected(collector, around, own).reading.engines[0].gpus == 2
    around.targets((), ())
    around.look(None, (), NOON)
    assert collected(collector, around, own).reading.engines[0].gpus is None


def test_test_traffic_is_labelled_for_prometheus_and_in_no_pool_for_the_controller(
    collector: Collector, around: Surroundings
) -> None:
    look = collected(collector, around, target("load", pool="base", gpu_indices=(3,), traffic=TrafficClass.TEST))
    shown = snapshot(look, timedelta(minutes=1), Around()).engines[EngineName("load")]
    assert (shown.traffic, shown.pool) == (TrafficClass.TEST, "base")
    (told,) = host_state(look, (), (0, 0), SpoolState()).engines
    assert (told.pool, told.gpu_indices) == ("", [3])
