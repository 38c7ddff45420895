"""Whether this controller leads: it holds a lease in the database, renews it in time, and stands aside when it cannot.

Of several controllers on one database one leads: it ticks and runs the jobs. The others take reports and answer
questions, and one of them takes over when the lease runs out. Lease times are real seconds, whatever clock is played.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from tidegate.controller.ports import Leaderships
from tidegate.model.leadership import Candidate, Leadership, Lease, Part
from tidegate.runtime.clock import Clock, SystemClock
from tidegate.runtime.errors import Transient

_log = structlog.get_logger()

RENEWALS = 5
"""So often within its span a lease is renewed, or asked for: four tries may fail."""

Under = Callable[[int], AbstractContextManager[None]]
"""Marks what a thread writes as done in a term (store/fence.py)."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of this controller."""

    epoch: int
    began_at: datetime


class Leader:
    """Stands for election over and over; any thread may ask whether we lead."""

    def __init__(
        self, leaderships: Leaderships, candidate: Candidate, under: Under, clock: Clock, span: timedelta
    ) -> None:
        """`span`: how long, in real time, a leader that is not heard of any more keeps the others waiting."""
        self._span = span
        self._leaderships, self._candidate, self._under, self._clock = leaderships, candidate, under, clock
        self._real = SystemClock()
        self._began_at = clock.now()
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._term: Term | None = None
        self._certain_until = 0.0
        """Until then, by the machine's monotonic clock, nobody else can have taken the lease."""
        self._heard_at: float | None = None
        self._error = ""

    @property
    def name(self) -> str:
        """What people know this controller by."""
        return self._candidate.name

    @property
    def renewal(self) -> timedelta:
        """How often to stand, in real time."""
        return self._span / RENEWALS

    def stand(self) -> None:
        """Renew the lease, or take it where it is free; raises Transient while the database is away."""
        before = self._term
        asked_at, now = self._real.monotonic(), self._clock.now()
        try:
            lease = self._leaderships.claim(self._candidate, self._running(), self._span, now)
        except Transient as error:
            self._error = str(error)
            raise
        with self._lock:
            self._lease, self._heard_at, self._error = lease, self._real.monotonic(), ""
            self._term = None
            if lease.mine:
                # Counted from before the question: the database counts from a later moment.
                self._certain_until = asked_at + self._span.total_seconds()
                self._term = before if before and before.epoch == lease.epoch else Term(lease.epoch, now)
                self._began_at = self._term.began_at
        _tell(before, self._term, lease)

    def resign(self) -> None:
        """Give the lease back at the end, so that another need not wait."""
        with self._lock:
            term, self._term, self._certain_until = self._term, None, 0.0
        if term is not None:
            self._leaderships.resign(self._candidate, term.epoch)

    def term(self) -> Term | None:
        """Our term while it certainly runs; None when we do not lead, or could not renew in time."""
        with self._lock:
            return self._term if self._real.monotonic() < self._certain_until else None

    def leads(self) -> bool:
        """True while our term certainly runs."""
        return self.term() is not None

    def may_look(self) -> bool:
        """True while we lead, and while we led last and the database does not say whether we still do."""
        return self.leads() or (self._term is not None and self.part() is Part.UNSURE)

    def led(self, job: Callable[[], None]) -> Callable[[], None]:
        """The job, done under our term; it does nothing while we do not lead."""

        def run() -> None:
            term = self.term()
            if term is not None:
                with self._under(term.epoch):
                    job()

        return run

    def part(self) -> Part:
        """What we are to the fleet."""
        if self.leads():
            return Part.LEADS
        silent = self._heard_at is None or self._real.monotonic() - self._heard_at > self._span.total_seconds()
        return Part.UNSURE if silent else Part.STANDS_BY

    def view(self) -> Leadership:
        """Who leads, as far as we know."""
        part, lease = self.part(), self._lease
        if lease is None:
            return Leadership(part)
        return Leadership(part, lease.epoch, lease.name, lease.since)

    def began_at(self) -> datetime:
        """When our latest term began; when we started before the first."""
        return self._began_at

    def standing_by(self) -> tuple[bool, str]:
        """Whether a controller that does not lead does its work, which is to know who does; and the sentence for it."""
        lease, heard_at = self._lease, self._heard_at
        because = f": {self._error}" if self._error else ""
        if lease is None or heard_at is None:
            return False, f"starting: it is not known yet who leads{because}"
        if self.part() is Part.UNSURE:
            return False, f"the database has not answered for {self._real.monotonic() - heard_at:.0f} s{because}"
        return True, f"standing by: {lease.name} leads"

    def _running(self) -> int | None:
        """The epoch to renew; None at the start, when our own earlier life is no rival; 0 once we lost."""
        if self._lease is None:
            return None
        return self._term.epoch if self._term is not None else 0


def _tell(before: Term | None, after: Term | None, lease: Lease) -> None:
    if after is not None and (before is None or before.epoch != after.epoch):
        _log.info("this controller leads", epoch=after.epoch)
    elif before is not None and after is None:
        _log.warning("another controller leads: this one stands by", leader=lease.name, epoch=lease.epoch)
