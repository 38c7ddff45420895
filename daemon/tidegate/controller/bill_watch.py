"""The job that imports what arrives: each delivery once, a bad one told and left until it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import structlog

from tidegate.controller.bill_book import BillBook
from tidegate.model.bill import ImportOrder
from tidegate.runtime.errors import Permanent

_log = structlog.get_logger()
BY = "watch"
"""Who imports, in the log and in the book."""


class Arrival(Protocol):
    """One delivery at a watched place."""

    @property
    def name(self) -> str:
        """Where it lies there."""
        ...

    def fetched(self) -> AbstractContextManager[ImportOrder]:
        """The order to import it, while its files are here."""
        ...

    def done(self) -> None:
        """It has been dealt with, well or not: leave it until it changes."""
        ...


class Place(Protocol):
    """A watched place."""

    def arrivals(self, now: datetime) -> Sequence[Arrival]:
        """What is new there."""
        ...


@dataclass(frozen=True, slots=True)
class BillWatch:
    """Looks at every place in turn."""

    book: BillBook
    places: Callable[[], Sequence[Place]]
    last: dict[str, str] = field(default_factory=dict)
    """What went wrong with which delivery, since this process began."""

    def __call__(self) -> None:
        """Import what is new; raises Transient when a place or the database is away."""
        for arrival in self._new():
            try:
                with arrival.fetched() as order:
                    self.book.take(order, BY)
            except Permanent as error:
                self.last[arrival.name] = str(error)
                _log.warning("bill not imported", file=arrival.name, why=str(error))
            else:
                self.last.pop(arrival.name, None)
            arrival.done()

    def _new(self) -> Iterator[Arrival]:
        for place in self.places():
            yield from place.arrivals(self.book.clock.now())
