"""Which GPUs to leave alone because a call about them hung: the others are read without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.model.gpu import GpuReading
from tidegate.observe.gpu_process import ReaderProcess
from tidegate.runtime.clock import Clock

RETRY_SECONDS = (60.0, 300.0, 1800.0, 3600.0)
"""How long a GPU is left alone after its n-th hang in a row; the last one for good. Each try costs one survey."""
MOST_STUCK = 3
"""So many processes that do not die are put up with, each stuck on a GPU of its own; then no more are started."""


@dataclass(frozen=True, slots=True)
class _Hang:
    hangs: int
    until: float


class HungGpus:
    """Remembers who hung, and the processes that are stuck for good."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hangs: dict[int, _Hang] = {}
        self._stuck: list[tuple[ReaderProcess, int | None]] = []

    def blame(self, index: int) -> None:
        """A call about this GPU did not come back."""
        before = self._hangs.get(index)
        hangs = before.hangs + 1 if before else 1
        pause = RETRY_SECONDS[min(hangs, len(RETRY_SECONDS)) - 1]
        self._hangs[index] = _Hang(hangs, self._clock.monotonic() + pause)

    def does_not_die(self, process: ReaderProcess) -> None:
        """A killed process is still there; its GPU, if it is known, is left alone until it is gone."""
        self._stuck.append((process, process.at_gpu))

    def blocker(self) -> ReaderProcess | None:
        """A stuck process that forbids to start another: nobody knows what it hangs on, or there are too many."""
        self._stuck = [(process, index) for process, index in self._stuck if process.exit_code() is None]
        nameless = next((process for process, index in self._stuck if index is None), None)
        return self._stuck[0][0] if len(self._stuck) >= MOST_STUCK else nameless

    def indices(self) -> list[int]:
        """The GPUs to leave alone now."""
        now = self._clock.monotonic()
        held = {index for _, index in self._stuck if index is not None}
        return sorted(held | {index for index, hang in self._hangs.items() if now < hang.until})

    def forgive(self, gpus: Iterable[GpuReading]) -> None:
        """Those that answered are as good as any."""
        for gpu in gpus:
            if gpu.up:
                self._hangs.pop(gpu.index, None)
