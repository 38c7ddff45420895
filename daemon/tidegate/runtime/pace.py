"""Work that nobody waits for, done in pieces with rests between them: who waits for an answer has his turn there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

from tidegate.runtime.clock import Clock, SystemClock

_TIMES = 2.0
"""A rest is so many times as long as the piece before it: the work takes a third of what it keeps busy."""
_LONGEST = 0.25
"""Seconds: a piece that was slow since everything is slow would make the next ones come too late."""


class Pace:
    """Rests after each piece, by real time. Any number of threads may work by the same one."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._never = Event()

    @contextmanager
    def piece(self) -> Iterator[None]:
        """The block is a piece: after it comes its rest, whatever came of it."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.rest(_TIMES * (self._clock.monotonic() - began))

    def rest(self, seconds: float) -> None:
        """Do nothing for so long, a quarter of a second at most."""
        self._clock.wait(self._never, timedelta(seconds=min(seconds, _LONGEST)))


class NoPace(Pace):
    """For a command that somebody waits for: one piece after the other."""

    def rest(self, seconds: float) -> None:
        """Go on at once."""
