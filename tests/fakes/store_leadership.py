"""The lease in memory."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidegate.model.leadership import Candidate, Lease
from tidegate.runtime.errors import Transient


@dataclass
class FakeLeaderships:
    """One lease, by the machine's monotonic clock; terms are counted where the replicas find them."""

    replicas: Any
    epoch: int = 0
    holder: Candidate | None = None
    since: datetime | None = None
    until: float = 0.0
    away: str = ""
    """What the database says when it does not answer."""
    under_terms: list[int] = field(default_factory=list)

    def claim(self, candidate: Candidate, epoch: int | None, span: timedelta, now: datetime) -> Lease:
        self._ask()
        ours = epoch is not None and epoch == self.epoch and self.holder == candidate
        same = epoch is None and self.holder is not None and self.holder.holder == candidate.holder
        if not ours and (same or self.until <= time.monotonic()):
            self.replicas.epoch += 1
            self.epoch, self.holder, self.since, ours = self.replicas.epoch, candidate, now, True
        if ours:
            self.until = time.monotonic() + span.total_seconds()
        assert self.holder is not None
        assert self.since is not None
        left = self.until - time.monotonic()
        mine = self.holder.holder == candidate.holder and left > 0
        return Lease(self.epoch, self.holder.name, self.since, mine, left)

    def resign(self, candidate: Candidate, epoch: int) -> None:
        self._ask()
        if (self.epoch, self.holder) == (epoch, candidate):
            self.until = time.monotonic()

    @contextmanager
    def under(self, epoch: int) -> Any:
        self.under_terms.append(epoch)
        yield

    def _ask(self) -> None:
        if self.away:
            raise Transient(self.away)
