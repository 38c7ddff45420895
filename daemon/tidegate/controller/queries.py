"""Questions about the past, a few at a time: somebody's large one must not take the controller from its work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from tidegate.controller.past_ports import Histories
from tidegate.model.history import History, Label, Limits, Metric, Question
from tidegate.runtime.errors import Transient

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = 2
_WAIT_SECONDS = 10.0


class Queries:
    """Implements the port `Histories` over another; raises Transient when others take too long."""

    def __init__(self, histories: Histories, at_once: int = AT_ONCE, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._histories, self._wait_seconds = histories, wait_seconds
        self._at_once, self._free = at_once, BoundedSemaphore(at_once)

    def query(self, question: Question, limits: Limits = Limits()) -> History:  # noqa: B008 - a frozen value
        """The answer, when it is its turn."""
        with self._turn():
            return self._histories.query(question, limits)

    def labels(self, metric: Metric, label: Label, since: datetime, until: datetime) -> Sequence[str]:
        """The values of a label, when it is its turn."""
        with self._turn():
            return self._histories.labels(metric, label, since, until)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._free.acquire(timeout=self._wait_seconds):
            raise Transient(f"{self._at_once} questions about the past are being answered, this one waited too long")
        try:
            yield
        finally:
            self._free.release()
