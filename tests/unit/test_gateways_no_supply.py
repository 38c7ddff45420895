"""A router in front of replicas is shown and never counted as one, whatever pool the configuration gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.agent_parts import NOON, FakeEngines, FakeGpus, ManualClock
from fakes.controller_world import BASE, BURST, H2, fleet_policy
from fakes.engine_pages import text

from tidegate.agent.collect import Collector, Look, Pace
from tidegate.agent.packing import host_state, labels
from tidegate.controller.gather import gather
from tidegate.controller.hostview import Freshness, Sources
from tidegate.model.reading import EngineKind, EngineName, EngineReading, EngineState, HostName
from tidegate.model.snapshot import SpoolState
from tidegate.model.target import EngineTarget
from tidegate.wire import HostRecord

_ROUTER = EngineTarget(EngineName("router"), "http://127.0.0.1:29000/metrics", pool="base", service="chat")
_PAGE = 'smg_worker_health{worker="http://w:1"} 1\n'
_FRESH = Freshness(view_window=timedelta(seconds=60), stale_after=timedelta(seconds=60))


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.down = False
        self.collector = Collector(HostName("gpu-2"), FakeGpus(), FakeEngines(self.answer), self.clock, Pace())

    def answer(self, target: EngineTarget, now: datetime) -> EngineReading:
        if self.down:
            return EngineReading(target.name, None, EngineState.HANGING, now)
        return replace(text(_PAGE), engine=target.name, at=now)

    def look(self, target: EngineTarget = _ROUTER) -> Look:
        self.clock.pass_by(timedelta(seconds=15))
        return self.collector.collect([target], ())


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.collector.close()


def replicas(look: Look) -> int:
    """How many replicas a controller counts from what the host says."""
    state = host_state(look, [], (0, 0), SpoolState())
    host = HostRecord(H2, NOON, state, revoked=False)
    gathered = gather(Sources([host], {H2: [look.reading]}, []), fleet_policy(), _FRESH, NOON)
    assert gathered.notes == ()
    assert gathered.fleet.pools[BURST].free_slots, "its GPUs would be nobody's, so they bar no place"
    return sum(len(gathered.fleet.pools[pool].replicas) for pool in (BASE, BURST))


def test_a_router_is_no_replica(bench: Bench) -> None:
    """It has a kind, no pool and no GPU; its service says where it belongs."""
    look = bench.look()
    (status,) = host_state(look, [], (0, 0), SpoolState()).engines
    shown = labels(_ROUTER, look.reading.engines[0])

    assert (status.kind, status.state) == ("sglang-router", "ready")
    assert (status.pool, status.gpus, status.gpu_indices, status.service) == ("", 0, [], "chat")
    assert (shown.pool, shown.gpus, shown.service) == ("", 0, "chat")
    assert replicas(look) == 0


def test_a_router_that_is_down_is_still_none(bench: Bench) -> None:
    """A replica that hangs counts as one that is coming."""
    bench.look()
    bench.down = True
    look = bench.look()

    assert look.reading.engines[0].state is EngineState.HANGING
    assert look.reading.engines[0].kind is EngineKind.SGLANG_ROUTER
    assert replicas(look) == 0


def test_a_router_that_was_never_up_is_known_by_its_declared_kind(bench: Bench) -> None:
    """Before the first page nothing else tells."""
    bench.down = True

    assert replicas(bench.look(replace(_ROUTER, kind=EngineKind.SGLANG_ROUTER))) == 0


def test_an_engine_keeps_its_pool(bench: Bench) -> None:
    """Down or not."""
    bench.down = True
    look = bench.look(replace(_ROUTER, kind=EngineKind.VLLM, gpu_indices=(0,)))
    (status,) = host_state(look, [], (0, 0), SpoolState()).engines

    assert (status.pool, status.gpus, status.gpu_indices, status.kind) == ("base", 1, [0], "vllm")
