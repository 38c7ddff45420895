"""Readings, and the reports that an agent would make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidegate.controller.ports import Hosts
from tidegate.model.reading import (
    Counter,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    GpuSurvey,
    HostName,
    HostReading,
    Rank,
)
from tidegate.model.series import SeriesKey, flatten, layout_id
from tidegate.model.vector import encode
from tidegate.wire import EngineStatus, HostState, Layout, Report

HOST = HostName("gpu-1")


def engine(at: datetime, name: str = "vllm-0", **totals: float) -> EngineReading:
    """A ready engine with counters by name, such as `generation_tokens=5`; `started` as itself."""
    started = totals.pop("started", None)
    counters = {(Counter(counter), Rank("0")): float(total) for counter, total in totals.items()}
    return EngineReading(EngineName(name), EngineKind.VLLM, EngineState.READY, at, counters=counters, started=started)


def down(at: datetime, name: str = "vllm-0", state: EngineState = EngineState.UNREACHABLE) -> EngineReading:
    """An engine that could not be read."""
    return EngineReading(EngineName(name), None, state, at)


def reading(at: datetime, *engines: EngineReading, host: HostName = HOST) -> HostReading:
    """One look at a host without GPUs."""
    return HostReading(host, at, GpuSurvey(up=False, why="none", at=at), engines)


def pack(look: HostReading, sequence: int, boot: str = "boot-a") -> tuple[Layout, Report]:
    """What the agent sends of a reading."""
    keys, values = flatten(look)
    layout = layout_of(keys)
    return layout, Report(
        boot_id=boot, sequence=sequence, at=look.at.timestamp(), layout=layout.id, values=encode(values)
    )


def layout_of(keys: Sequence[SeriesKey]) -> Layout:
    return Layout(id=layout_id(keys), series=[key.row() for key in keys])


def claim(hosts: Hosts, at: datetime, *names: str, pool: str = "base", host: HostName = HOST) -> None:
    """Let the host be enrolled, and say that its engines of these names belong to the pool."""
    hosts.enroll(host, f"token of {host}", at)
    engines = [EngineStatus(name=name, url="http://e", state="ready", pool=pool) for name in names]
    hosts.seen(host, HostState(engines=engines), at)


def batch(*looks: HostReading, first: int = 1, boot: str = "boot-a") -> tuple[list[Layout], list[Report]]:
    """Layouts (once each) and reports of readings, numbered from `first`."""
    packed = [pack(look, number, boot) for number, look in enumerate(looks, start=first)]
    layouts: Mapping[str, Layout] = {layout.id: layout for layout, _ in packed}
    return list(layouts.values()), [report for _, report in packed]
