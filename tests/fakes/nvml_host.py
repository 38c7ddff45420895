"""A host with a driver library of our own (tests/native/fake_nvml.c) under the real reader."""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Protocol

from tidegate.model.reading import GpuFault, GpuSurvey
from tidegate.observe.gpu_child import BACKOFF_SECONDS, NvmlGpuReader

SOURCE = Path(__file__).resolve().parents[1] / "native" / "fake_nvml.c"
FIRST, SECOND = "GPU-8f6d2a31-0000-4a6e-9d1c-5a1f00000000", "GPU-8f6d2a31-0001-4a6e-9d1c-5a1f00000001"
PATIENT = timedelta(seconds=20)
PROMPT = timedelta(seconds=0.6)
HOUR = timedelta(hours=1)


class Ticking:
    """A clock whose seconds are passed by the test: for the back-off, not for the deadlines."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        raise AssertionError("the reader is told the time")

    def monotonic(self) -> float:
        return self.seconds

    def real_seconds(self, span: timedelta) -> float:
        return span.total_seconds()

    def wait(self, event: Event, span: timedelta) -> bool:
        return event.is_set()


def build(folder: Path, *flags: str) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags, "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


class Host:
    """A reader under test, with its clock and the file that says what goes wrong."""

    def __init__(self, library: Path, faults: Path, now: datetime, timeout: timedelta, start: timedelta) -> None:
        self.clock = Ticking()
        self.now = now
        self.faults = faults
        self.reader = NvmlGpuReader(timeout, start_timeout=start, library_path=library, clock=self.clock)

    def read(self) -> GpuSurvey:
        return self.reader.read(self.now)

    def read_started(self) -> GpuSurvey:
        """Read as often as the start of a process on a busy machine may take."""
        for _ in range(100):
            survey = self.read()
            if survey.fault is not GpuFault.STARTING:
                return survey
        raise AssertionError("the child never answered")

    def let_backoff_pass(self) -> None:
        self.clock.seconds += BACKOFF_SECONDS[-1]

    def close(self) -> None:
        """Close the reader and wait for every process that it killed: on a busy machine that takes longer than it."""
        self.reader.close()
        for process, _ in self.reader._hung._stuck:
            assert process.exit_code(30.0) is not None

    def pid(self) -> int:
        assert self.reader._child is not None
        return self.reader._child.pid


class MakeHost(Protocol):
    """Makes a host; closed after the test."""

    def __call__(
        self,
        machine: str = "h100x2",
        library: Path | None = None,
        timeout: timedelta = PATIENT,
        start: timedelta = HOUR,
    ) -> Host: ...
