"""Read the GPUs through a child process that may hang, die and be replaced; the reader itself does none of these."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import tidegate
from tidegate.model.reading import GpuFault, GpuReading, GpuSurvey
from tidegate.observe.gpu_json import decode, is_nameless
from tidegate.runtime.clock import Clock, SystemClock

BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""How long after the n-th failure in a row the next child is started; the last one for good."""

_REAP_SECONDS = 0.2
"""How long to wait for the end of a killed child: one that is stuck inside the driver does not even die."""
_CLOSE_SECONDS = 1.0
_ANSWER_LIMIT = 1024 * 1024
_COMMAND = (sys.executable, "-P", "-m", "tidegate.observe.nvml")
_REAL = SystemClock()
"""Deadlines are real seconds, also where the agent's clock is played fast."""


class _NoAnswer(Exception):  # noqa: N818 - named for what happened
    """The child gave no answer in time, or ended."""


class _Child:
    """One reader process and the socket that is its stdin and stdout."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        try:
            self._process = _spawn(theirs.fileno(), environment)
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._buffer = b""
        self.pid = self._process.pid
        self.started = _REAL.monotonic()
        self.answered = False

    def ask(self, request: int, deadline: float) -> Mapping[str, object]:
        """The answer to a request as JSON values; raises _NoAnswer past the deadline or at the child's end."""
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(f"{request}\n".encode())
            while True:
                answer = self._answer(deadline)
                if isinstance(answer, dict) and answer.get("request") == str(request):
                    self.answered = True
                    return answer
        except (OSError, ValueError) as error:
            raise _NoAnswer from error

    def _answer(self, deadline: float) -> object:
        while b"\n" not in self._buffer:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(65536)
            self._buffer += part
            if not part or len(self._buffer) > _ANSWER_LIMIT:
                raise _NoAnswer
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def exit_code(self, wait_seconds: float = 0.0) -> int | None:
        """How it ended (minus the signal's number when by one), reaping it; None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_seconds)
        return self._process.returncode

    def hang_up(self) -> None:
        """Let it see the end of its input."""
        self._socket.close()

    def kill(self) -> None:
        """End it the hard way: a process in a driver call takes no other signal."""
        self._socket.close()
        self._process.kill()


def _spawn(pipe: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C in a terminal is the agent's business.
    return subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, env=dict(environment), start_new_session=True)


def _left(deadline: float) -> float:
    return max(0.001, deadline - _REAL.monotonic())


class NvmlGpuReader:
    """The `GpuReader` over NVML. `timeout` bounds one `read`; `start_timeout` what opening the driver may take.

    Opening takes seconds per GPU where persistence mode is off, so a child is not killed while it does; `read`
    meanwhile answers that the driver is being opened. `library_path` is searched first for libnvidia-ml.so.1.
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
        self._environment = _environment(library_path)
        self._clock = clock
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._dying: _Child | None = None
        self._requests = 0
        self._failures = 0
        self._next_start = 0.0
        self._down: GpuSurvey | None = None
        self._known: dict[int, GpuReading] = {}

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

    def _start(self, now: datetime) -> _Child | GpuSurvey:
        """A new child, or why there is none: an earlier one does not die, or it is too early to try again."""
        if self._dying is not None and self._dying.exit_code() is None:
            why = f"the GPU reader (pid {self._dying.pid}) is stuck inside the driver and cannot be ended: see `dmesg`"
            return GpuSurvey(up=False, why=why, at=now, fault=GpuFault.HANGING)
        self._dying = None
        if self._down is not None and self._clock.monotonic() < self._next_start:
            return self._down
        try:
            self._child = _Child(self._environment)
        except OSError as error:
            return self._failed(GpuFault.READER_DIED, f"the GPU reader cannot be started: {error}", now)
        return self._child

    def _ask(self, child: _Child, now: datetime, deadline: float) -> GpuSurvey:
        self._requests += 1
        try:
            answer = child.ask(self._requests, deadline)
        except _NoAnswer:
            return self._no_answer(child, now)
        survey = decode(answer, now, "nvml")
        if answer.get("last"):  # it ends by itself now
            self._child = None
            self._end(child, _REAP_SECONDS)
        if not survey.up:
            return self._failed(survey.fault or GpuFault.UNKNOWN, survey.why, now)
        self._failures, self._down = 0, None
        return self._named(survey)

    def _no_answer(self, child: _Child, now: datetime) -> GpuSurvey:
        opening = _REAL.monotonic() - child.started
        code = child.exit_code(_REAP_SECONDS / 2)
        if code is None and not child.answered and opening < self._start_timeout:
            why = f"the NVIDIA driver is being opened, for {opening:.0f} s so far"
            return GpuSurvey(up=False, why=why, at=now, fault=GpuFault.STARTING)
        self._child = None
        self._kill(child)
        if code is not None:
            return self._failed(GpuFault.READER_DIED, f"the GPU reader ended ({_ending(code)}); it is restarted", now)
        waited = self._timeout if child.answered else opening
        why = f"NVML did not answer within {waited:g} s; its reader is restarted"
        return self._failed(GpuFault.HANGING, why, now)

    def _end(self, child: _Child, wait_seconds: float) -> None:
        """Let the child end, and see to it."""
        child.hang_up()
        if child.exit_code(wait_seconds) is None:
            self._kill(child)

    def _kill(self, child: _Child) -> None:
        child.kill()
        if child.exit_code(_REAP_SECONDS / 2) is None:
            self._dying = child

    def _failed(self, fault: GpuFault, why: str, now: datetime) -> GpuSurvey:
        """Remember that reading failed, and when to start afresh."""
        self._next_start = self._clock.monotonic() + BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._down = GpuSurvey(up=False, why=why, at=now, fault=fault)
        return self._down

    def _named(self, survey: GpuSurvey) -> GpuSurvey:
        """Give a lost GPU, which cannot say who it is, the name that its index had before."""
        present = {gpu.uuid for gpu in survey.gpus}
        gpus = []
        for gpu in survey.gpus:
            known = self._known.get(gpu.index)
            if is_nameless(gpu.uuid) and known is not None and known.uuid not in present:
                gpus.append(dataclasses.replace(gpu, uuid=known.uuid, name=known.name))
            else:
                gpus.append(gpu)
        self._known.update({gpu.index: gpu for gpu in gpus if gpu.up})
        return dataclasses.replace(survey, gpus=tuple(gpus))


def _environment(library_path: Path | None) -> dict[str, str]:
    """The agent's environment, with this very package to import and the library to find."""
    environment = dict(os.environ)
    _prepend(environment, "PYTHONPATH", Path(tidegate.__file__).parents[1])
    if library_path is not None:
        _prepend(environment, "LD_LIBRARY_PATH", library_path)
    return environment


def _prepend(environment: dict[str, str], name: str, folder: Path) -> None:
    environment[name] = os.pathsep.join(filter(None, (str(folder), environment.get(name))))


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"
