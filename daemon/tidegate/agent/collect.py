"""One collection: the GPUs and every engine at once, each under a deadline; one that hangs delays no other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from tidegate.agent.history import stall_after, told, trimmed
from tidegate.agent.ports import EngineReader, EngineTarget, GpuReader, MachineReader
from tidegate.model.machine import Machine
from tidegate.model.reading import (
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    GpuFault,
    GpuSurvey,
    HostName,
    HostReading,
)
from tidegate.runtime.clock import Clock

_log = structlog.get_logger()

_WORKERS = 64
"""Engines that may hang at once before one of them delays another; threads are made as they are needed."""
_GRACE_SECONDS = 0.5
"""On top of a reader's own time-out: its word on what went wrong is better than ours."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long to look. Time-outs are real seconds, the rest is clock time."""

    interval: timedelta = timedelta(seconds=15)
    window: timedelta = timedelta(seconds=60)
    scrape_timeout: timedelta = timedelta(seconds=5)
    nvml_timeout: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Look:
    """What one collection saw."""

    reading: HostReading
    targets: Sequence[EngineTarget]
    histories: Mapping[EngineName, tuple[EngineReading, ...]]
    """Per engine the recent readings, oldest first, the last one as `reading` tells it."""
    last_success: Mapping[EngineName, datetime]
    seconds: float
    """How long it took, in clock time."""


class Collector:
    """Reads the host and keeps the recent readings of each engine. `collect` is for one thread."""

    def __init__(
        self,
        host: HostName,
        gpus: GpuReader,
        engines: EngineReader,
        clock: Clock,
        pace: Pace,
        machine: MachineReader | None = None,
    ) -> None:
        self._host, self._gpus, self._engines, self._clock, self._pace = host, gpus, engines, clock, pace
        self._machine = machine
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="collect")
        self._scrapes: dict[EngineName, Future[EngineReading]] = {}
        self._begun: dict[EngineName, datetime] = {}
        """When each engine was last asked."""
        self._survey: Future[GpuSurvey] | None = None
        self._histories: dict[EngineName, tuple[EngineReading, ...]] = {}
        self._last_success: dict[EngineName, datetime] = {}
        self._kinds: dict[EngineName, EngineKind] = {}
        """What each one was when it last told: one that is down does not become something else."""

    def use(self, pace: Pace) -> None:
        """Take on a reloaded pace."""
        self._pace = pace

    def collect(self, targets: Sequence[EngineTarget], starting: Collection[EngineName]) -> Look:
        """Read everything once; takes no longer than the time-outs, whatever hangs."""
        now, began = self._clock.now(), self._clock.monotonic()
        self._forget({target.name for target in targets})
        scrapes = {target.name: self._scrape(target, now) for target in targets}
        survey = self._survey if self._survey is not None and not self._survey.done() else None
        self._survey = survey or self._pool.submit(self._gpus.read, now)
        machine = self._machine.read() if self._machine is not None else Machine()
        longest = max((target.timeout or self._pace.scrape_timeout for target in targets), default=timedelta())
        wait(scrapes.values(), longest.total_seconds() + _GRACE_SECONDS)
        readings = tuple(self._told(name, _landed(name, scrape, now), starting) for name, scrape in scrapes.items())
        spent = self._clock.real_seconds(timedelta(seconds=self._clock.monotonic() - began))
        wait([self._survey], max(0.0, self._pace.nvml_timeout.total_seconds() + _GRACE_SECONDS - spent))
        reading = HostReading(self._host, now, _surveyed(self._survey, now), readings, machine)
        seconds = self._clock.monotonic() - began
        return Look(reading, tuple(targets), dict(self._histories), dict(self._last_success), seconds)

    def close(self) -> None:
        """Let go of the readers; a scrape that hangs is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._gpus.close()
        if self._machine is not None:
            self._machine.close()

    def _scrape(self, target: EngineTarget, now: datetime) -> Future[EngineReading]:
        """The scrape under way, else a new one; the last one again while the engine may not be asked yet."""
        present = self._scrapes.get(target.name)
        if present is None or (present.done() and not self._rests(target, now)):
            present = self._scrapes[target.name] = self._pool.submit(self._engines.read, target, now)
            self._begun[target.name] = now
        return present

    def _rests(self, target: EngineTarget, now: datetime) -> bool:
        # A collection that comes a little early must not double the floor.
        since = now - self._begun.get(target.name, datetime.min.replace(tzinfo=now.tzinfo))
        return since + self._pace.interval / 10 < target.min_interval

    def _told(self, name: EngineName, reading: EngineReading, starting: Collection[EngineName]) -> EngineReading:
        bound = stall_after(self._pace.interval)
        keep = max(self._pace.window, bound) + self._pace.interval
        before = self._histories.get(name, ())
        # An engine that rests shows its last reading again: that is no second one.
        readings = trimmed(before if before and before[-1] is reading else (*before, reading), reading.at, keep)
        last = told(readings, bound, starting=name in starting)
        # Kept as it was read: a stall is proven by readings that answered, not by our word for them.
        self._histories[name] = readings
        if last.state is EngineState.READY:
            self._last_success[name] = last.at
        if last.kind is not None:
            self._kinds[name] = last.kind
        return replace(last, kind=self._kinds.get(name))

    def _forget(self, present: Collection[EngineName]) -> None:
        for name in [name for name in self._histories if name not in present]:
            del self._histories[name]
            self._last_success.pop(name, None)
            self._kinds.pop(name, None)
        for name in [name for name, scrape in self._scrapes.items() if name not in present and scrape.done()]:
            del self._scrapes[name]
            self._begun.pop(name, None)


def _landed(name: EngineName, scrape: Future[EngineReading], now: datetime) -> EngineReading:
    if not scrape.done():
        return EngineReading(name, None, EngineState.HANGING, now, problems=("no answer within the time-out",))
    error = scrape.exception()
    if error is None:
        return scrape.result()
    _log.error("scrape broke", engine=name, error=str(error), exc_info=error)
    return EngineReading(name, None, EngineState.FAILED, now, problems=(f"the reader broke: {error}",))


def _surveyed(survey: Future[GpuSurvey], now: datetime) -> GpuSurvey:
    if not survey.done():
        why = "the GPU reader did not answer within its time-out"
        return GpuSurvey(up=False, why=why, at=now, fault=GpuFault.HANGING)
    error = survey.exception()
    if error is None:
        return survey.result()
    _log.error("GPU survey broke", error=str(error), exc_info=error)
    return GpuSurvey(up=False, why=f"the GPU reader broke: {error}", at=now, fault=GpuFault.UNKNOWN)
