"""A simulated GPU is as busy as the engine on it, and its JSON is what the agent's reader takes."""

from __future__ import annotations

from datetime import datetime

from tidegate.demo.gpus import GpuState, Work, advance, row
from tidegate.observe.gpu_json import decode


def test_utilisation_is_the_busy_share_between_two_readings() -> None:
    """40 of 100 seconds; energy grows with the power."""
    before = advance(GpuState(0.0), Work(0.0, 10.0), 0.0)
    after = advance(before, Work(100.0, 50.0), 100.0)
    assert after.utilization == 0.4
    assert after.energy_joules == 100 * (70 + 0.4 * 550)


def test_without_an_engine_or_after_its_restart_it_idles() -> None:
    """Never negative, whatever the counter did."""
    busy = GpuState(0.0, Work(0.0, 500.0))
    assert advance(busy, None, 10.0).utilization == 0.0
    assert advance(busy, Work(10.0, 1.0), 10.0).utilization == 0.0


def test_the_agents_reader_takes_every_figure(now: datetime) -> None:
    """Nothing is missing but what a simulated card does not have."""
    state = advance(GpuState(0.0, Work(0.0, 0.0)), Work(10.0, 5.0), 10.0)
    survey = decode({"driver": "demo", "gpus": [row("base-1", 0, state)]}, now, "http")
    assert survey.up
    gpu = survey.gpus[0]
    assert (gpu.uuid, gpu.utilization, gpu.up) == ("GPU-base-1-0", 0.5, True)
    assert isinstance(gpu.power_watts, float)
    assert isinstance(gpu.memory_used_bytes, float)
