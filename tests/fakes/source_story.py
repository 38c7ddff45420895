"""Eighty minutes of three hosts, as both sources of metrics learn of them: reports of agents, and their scraped pages.

`gpu-1` serves evenly, and finds less in its cache for the last twenty minutes. `gpu-2` has an engine of two ranks whose
process starts again forty minutes before the end. What `gpu-3` does nobody knows for the last two minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

from fakes.controller_world import BASE, BURST, batch, host_state, own_engine, survey
from fakes.scrapes import scraped

from tidegate.model.figures import figures
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gauge,
    Histogram,
    HostName,
    HostReading,
    Rank,
)
from tidegate.model.scrape import SampleSeries
from tidegate.model.snapshot import AgentSnapshot, EngineLabels
from tidegate.model.window import EngineWindow, engine_window
from tidegate.wire import Batch, HostState

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
BEGIN = NOON - timedelta(minutes=80)
STEP = timedelta(seconds=15)
WORSE_FROM, RESTART, SILENT_FROM = (NOON - timedelta(minutes=minutes) for minutes in (20, 40, 2))
G1, G2, G3 = HostName("gpu-1"), HostName("gpu-2"), HostName("gpu-3")
SEATS = {G1: ("vllm-a", BASE), G2: ("vllm-b", BURST), G3: ("vllm-c", BURST)}
"""The engine of each host, and its pool."""
SCRAPED_AFTER = 4.5
"""Prometheus comes by so many seconds after the collection."""
PROMPT, GENERATED, LOOKED_UP = 1000.0, 100.0, 1000.0
"""Of each engine in each step."""


@cache
def looks(host: HostName, until: datetime = NOON) -> Sequence[HostReading]:
    """What the host's agent saw."""
    end = SILENT_FROM if host == G3 else until
    steps = range((end - BEGIN) // STEP + 1)
    return [look_at(host, BEGIN + STEP * step) for step in steps]


@cache
def reported(host: HostName) -> Batch:
    """All of it in one batch of the host's agent, sent at the end."""
    return batch(host, looks(host), states()[host], sent_at=NOON)


def states() -> Mapping[HostName, HostState]:
    """What each agent says of its host, until the end."""
    return {host: host_state(gpus=1, engines=[own_engine(name, pool)]) for host, (name, pool) in SEATS.items()}


def samples() -> Iterator[SampleSeries]:
    """What a Prometheus has: the pages as scraped, and whether the targets answered."""
    for number, host in enumerate((G1, G2, G3), start=1):
        target = {"job": "tidegate", "instance": f"10.0.0.{number}:9091", "service": "tidegate-agent"}
        seen = looks(host)
        yield from scraped(
            ((look.at.timestamp() + SCRAPED_AFTER, page(seen[: at + 1])) for at, look in enumerate(seen)), target
        )
        moments = [BEGIN + STEP * step for step in range((NOON - BEGIN) // STEP + 1)]
        answers = [(at.timestamp() + SCRAPED_AFTER, float(host != G3 or at <= SILENT_FROM)) for at in moments]
        yield SampleSeries({"__name__": "up", "job": "tidegate", "instance": target["instance"]}, answers)


def page(seen: Sequence[HostReading]) -> AgentSnapshot:
    """The agent's snapshot after its newest look."""
    now, recent = seen[-1], [look.engines[0] for look in seen[-5:]]
    engine = now.engines[0]
    window = engine_window(recent)
    return AgentSnapshot(
        version="1.0",
        reading=now,
        collected_at=now.at + timedelta(seconds=0.25),
        collect_seconds=0.25,
        collections=len(seen),
        engines={engine.engine: EngineLabels(SEATS[now.host][1], "chat")},
        windows={engine.engine: window} if isinstance(window, EngineWindow) else {},
        figures={engine.engine: figures(recent, window)},
    )


def look_at(host: HostName, at: datetime) -> HostReading:
    """What the host's agent saw at a moment of the story."""
    engine = {G1: _worse, G2: _two_ranks, G3: _even}[host](at)
    return HostReading(host, at, survey(at, 0.5), (replace(engine, engine=EngineName(SEATS[host][0])),))


def _steps(since: datetime, at: datetime) -> int:
    return max(0, (at - since) // STEP)


def _even(at: datetime) -> EngineReading:
    steps = _steps(BEGIN, at)
    return _engine(at, {Rank("0"): 1.0}, 5000.0 + steps, hits=500.0 * steps, started=1.0e9)


def _worse(at: datetime) -> EngineReading:
    steps, worse = _steps(BEGIN, at), _steps(WORSE_FROM, at)
    return _engine(at, {Rank("0"): 1.0}, 5000.0 + steps, hits=500.0 * (steps - worse) + 100.0 * worse, started=1.0e9)


def _two_ranks(at: datetime) -> EngineReading:
    begun = at >= RESTART
    steps = _steps(RESTART, at) + 1.0 if begun else 9000.0 + _steps(BEGIN, at)
    started = (RESTART - STEP / 2).timestamp() if begun else 1.0e9
    return _engine(at, {Rank("0"): 0.25, Rank("1"): 0.75}, steps, hits=steps * 500.0, started=started)


def _engine(at: datetime, shares: Mapping[Rank, float], steps: float, *, hits: float, started: float) -> EngineReading:
    """An engine after so many steps of work, shared out over its ranks."""
    totals = {
        Counter.PROMPT_TOKENS: PROMPT * steps,
        Counter.CACHED_PROMPT_TOKENS: hits,
        Counter.GENERATION_TOKENS: GENERATED * steps,
        Counter.CACHE_QUERIES: LOOKED_UP * steps,
        Counter.CACHE_HITS: hits,
        Counter.STEPS: steps,
    }
    gauges = {Gauge.RUNNING: 4.0, Gauge.QUEUE_DEPTH: 2.0}
    return EngineReading(
        EngineName("engine"),
        EngineKind.VLLM,
        EngineState.READY,
        at,
        gauges={
            **{(name, rank): value * share for name, value in gauges.items() for rank, share in shares.items()},
            **{(Gauge.KV_CACHE_USAGE, rank): 0.25 for rank in shares},
        },
        counters={(name, rank): total * share for name, total in totals.items() for rank, share in shares.items()},
        histograms={
            (Distribution.TTFT, rank): Histogram(
                (0.1, 1.0, math.inf),
                (6 * steps * share, 10 * steps * share, 10 * steps * share),
                3 * steps,
                10 * steps * share,
            )
            for rank, share in shares.items()
        },
        started=started,
    )
