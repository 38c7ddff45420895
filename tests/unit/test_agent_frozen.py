"""A frozen engine told from recorded pages: one whose core was stopped, one under load."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from fakes.agent_parts import NOON

from tidegate.agent.history import stalled
from tidegate.model.reading import EngineName
from tidegate.observe.body import read_body

BOUND = timedelta(seconds=45)


def _stalled(folder: Path, first: str, second: str) -> bool:
    readings = [
        read_body(EngineName("vllm"), (folder / f"{name}.prom").read_bytes(), at)
        for name, at in ((first, NOON), (second, NOON + BOUND))
    ]
    return stalled(readings, BOUND)


def test_a_stopped_core_is_stalled(shared: Path) -> None:
    assert _stalled(shared / "captures" / "vllm-0.32.0", "frozen-1", "frozen-2")


def test_an_engine_under_load_or_idle_is_not(shared: Path) -> None:
    folder = shared / "captures" / "vllm-0.32.0"
    assert not _stalled(folder, "load-a", "load-b")
    assert not _stalled(folder, "idle", "idle")
    assert not _stalled(folder, "after-load", "after-load")
