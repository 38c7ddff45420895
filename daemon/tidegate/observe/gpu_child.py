"""Read the GPUs through a child process that may hang, die and be replaced; the reader itself does none of these."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path

from tidegate.model.gpu import GpuFault, GpuSurvey
from tidegate.observe.gpu_history import GpuHistory
from tidegate.observe.gpu_hung import HungGpus
from tidegate.observe.gpu_json import decode
from tidegate.observe.gpu_process import NoAnswer, ReaderProcess, ending, reader_environment
from tidegate.runtime.clock import Clock, SystemClock

BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""How long after the n-th failure in a row the next child is started; the last one for good."""

_REAP_SECONDS = 0.2
"""How long to wait for the end of a killed child: one that is stuck inside the driver does not even die."""
_CLOSE_SECONDS = 1.0
_REAL = SystemClock()
"""Deadlines are real seconds, also where the agent's clock is played fast."""


class NvmlGpuReader:
    """The `GpuReader` over NVML. `timeout` bounds one `read`; `start_timeout` what opening the driver may take.

    Opening takes seconds per GPU where persistence mode is off, so a child is not killed while it does; `read`
    meanwhile answers that the driver is being opened. `library_path` is searched first for libnvidia-ml.so.1.
    A GPU that a call hung on is left alone for a while, so that it costs the others one survey and not all.
    """

    def __init__(
        self,
        timeout: timedelta,
        *,
        start_timeout: timedelta = timedelta(seconds=60),
        library_path: Path | None = None,
        clock: Clock = _REAL,
    ) -> None:
        self._timeout = timeout.total_seconds()
        self._start_timeout = start_timeout.total_seconds()
        self._environment = reader_environment(library_path)
        self._clock = clock
        self._lock = threading.Lock()
        self._child: ReaderProcess | None = None
        self._requests = 0
        self._failures = 0
        self._next_start = 0.0
        self._down: GpuSurvey | None = None
        self._history = GpuHistory()
        self._hung = HungGpus(clock)

    def read(self, now: datetime) -> GpuSurvey:
        """All GPUs, or why they cannot be read; never raises, never takes longer than the timeout."""
        with self._lock:
            deadline = _REAL.monotonic() + max(self._timeout - _REAP_SECONDS, self._timeout / 2)
            if self._child is not None and self._child.exit_code() is not None:
                self._child.hang_up()
                self._child = None
            child = self._child or self._start(now)
            return child if isinstance(child, GpuSurvey) else self._ask(child, now, deadline)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                self._end(child, _CLOSE_SECONDS)

    def _start(self, now: datetime) -> ReaderProcess | GpuSurvey:
        """A new child, or why there is none: an earlier one does not die, or it is too early to try again."""
        stuck = self._hung.blocker()
        if stuck is not None:
            why = f"the GPU reader (pid {stuck.pid}) is stuck inside the driver and cannot be ended: see `dmesg`"
            return GpuSurvey(up=False, why=why, at=now, fault=GpuFault.HANGING)
        if self._down is not None and self._clock.monotonic() < self._next_start:
            return self._down
        try:
            self._child = ReaderProcess(self._environment)
        except OSError as error:
            return self._failed(GpuFault.READER_DIED, f"the GPU reader cannot be started: {error}", now)
        return self._child

    def _ask(self, child: ReaderProcess, now: datetime, deadline: float) -> GpuSurvey:
        self._requests += 1
        try:
            answer = child.ask(self._requests, self._hung.indices(), deadline)
        except NoAnswer:
            return self._no_answer(child, now)
        survey = decode(answer, now, "nvml")
        if answer.get("last"):  # it ends by itself now
            self._child = None
            self._end(child, _REAP_SECONDS)
        if not survey.up:
            return self._failed(survey.fault or GpuFault.UNKNOWN, survey.why, now)
        self._failures, self._down = 0, None
        self._hung.forgive(survey.gpus)
        return self._history.told(survey, child.pid)

    def _no_answer(self, child: ReaderProcess, now: datetime) -> GpuSurvey:
        opening = _REAL.monotonic() - child.started
        code = child.exit_code(_REAP_SECONDS / 2)
        if code is None and not child.answered and opening < self._start_timeout:
            why = f"the NVIDIA driver is being opened, for {opening:.0f} s so far"
            return GpuSurvey(up=False, why=why, at=now, fault=GpuFault.STARTING)
        self._child = None
        about = "" if child.at_gpu is None else f" about GPU {child.at_gpu}"
        if child.at_gpu is not None:  # a call that ends the process is no better than one that does not end
            self._hung.blame(child.at_gpu)
        self._kill(child)
        if code is not None:
            why = f"the GPU reader ended{about and f' when it asked{about}'} ({ending(code)}); it is restarted"
            return self._failed(GpuFault.READER_DIED, why, now)
        waited = self._timeout if child.answered else opening
        why = f"NVML did not answer{about} within {waited:g} s; its reader is restarted"
        return self._failed(GpuFault.HANGING, why, now)

    def _end(self, child: ReaderProcess, wait_seconds: float) -> None:
        """Let the child end, and see to it."""
        child.hang_up()
        if child.exit_code(wait_seconds) is None:
            self._kill(child)

    def _kill(self, child: ReaderProcess) -> None:
        child.kill()
        if child.exit_code(_REAP_SECONDS / 2) is None:
            self._hung.does_not_die(child)

    def _failed(self, fault: GpuFault, why: str, now: datetime) -> GpuSurvey:
        """Remember that reading failed, and when to start afresh."""
        self._next_start = self._clock.monotonic() + BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._down = GpuSurvey(up=False, why=why, at=now, fault=fault)
        return self._down
