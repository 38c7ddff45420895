"""What boards show of engines and GPUs: the last tick's view, once, with what is missing left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, World, engine, host_state, own_engine, reading

from tidegate.controller.boards import Boards
from tidegate.model.reading import Gap, GpuFigure, GpuReading, GpuUuid, Missing
from tidegate.store.schema_figures import ENGINE_FIGURES, GPU_FIGURES

GPU = GpuReading(
    GpuUuid("GPU-0"),
    0,
    "",
    up=True,
    figures={GpuFigure.UTILIZATION: 0.5, GpuFigure.POWER: Missing(Gap.NOT_SUPPORTED)},
)


@pytest.fixture
def world(now: datetime) -> World:
    """One host with an engine on GPU 0 for a minute; another that is enrolled and silent."""
    made = World(ManualClock(now))
    made.enroll(H1, H2)
    for number in range(5):
        at = made.clock.now()
        seen = reading(
            H1, at, [engine("vllm-a", at, queue_depth=2.0, prompt_tokens=150.0 * number, generation_tokens=0.0)]
        )
        seen = replace(seen, gpus=replace(seen.gpus, up=True, gpus=(GPU,)))
        made.report(H1, seen, state=host_state(2, [own_engine()], seen_at=at), first=number + 1)
        if number < 4:
            made.clock.forward(15)
    made.run()
    return made


def test_an_engine_s_figures_are_those_of_its_window(world: World) -> None:
    boards = Boards(world.store.figures, world.state)

    boards.record()

    (found,) = world.store.figures.engines
    assert (found.at, found.host, found.engine) == (world.clock.now(), H1, "vllm-a")
    assert (found.pool, found.service, found.state) == ("base", "chat", "ready")
    assert found.figures["queue_depth"] == 2.0
    assert found.figures["prompt_tokens_per_second"] == pytest.approx(10.0)
    assert found.figures["tokens_per_gpu_per_second"] == pytest.approx(10.0)
    assert found.figures["ttft_p95_seconds"] is None
    assert "retry_rate" not in found.figures
    assert set(found.figures) <= set(ENGINE_FIGURES)


def test_a_gpu_belongs_to_the_engine_that_holds_it(world: World) -> None:
    Boards(world.store.figures, world.state).record()

    (found,) = world.store.figures.gpus
    assert (found.gpu, found.index, found.up) == ("GPU-0", 0, True)
    assert (found.engine, found.pool, found.service) == ("vllm-a", "base", "chat")
    assert found.figures == {"utilization": 0.5, "power_watts": None}
    assert set(found.figures) <= set(GPU_FIGURES)


def test_a_tick_is_recorded_once_and_a_silent_host_not_at_all(world: World) -> None:
    boards = Boards(world.store.figures, world.state)
    boards.record()
    boards.record()
    assert len(world.store.figures.engines) == 1

    world.clock.forward(600)
    world.run()
    boards.record()

    assert len(world.store.figures.engines) == 1
    assert len(world.store.figures.gpus) == 1


def test_before_the_first_tick_there_is_nothing(now: datetime) -> None:
    fresh = World(ManualClock(now))

    Boards(fresh.store.figures, fresh.state).record()

    assert fresh.store.figures.engines == []
