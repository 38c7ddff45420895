"""The job that imports what arrives: each delivery once, a bad one told and left until it changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
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

    def arrivals(self, now: datetime, again: Collection[str] = ()) -> Sequence[Arrival]:
        """What is new there, and what has one of these names."""
        ...


@dataclass(frozen=True, slots=True)
class BillWatch:
    """Looks at every place in turn."""

    book: BillBook
    places: Callable[[], Sequence[Place]]
    last: dict[str, str] = field(default_factory=dict)
    """What went wrong with which delivery, since this process began."""
    waiting: dict[str, datetime | None] = field(default_factory=dict)
    """Deliveries that were not taken whole, with when prices had last changed: other prices may mend them."""

    def __call__(self) -> None:
        """Import what is new; raises Transient when a place or the database is away."""
        priced = self.book.store.priced_at()
        again = {name for name, then in self.waiting.items() if then != priced}
        for arrival in self._new(again):
            whole = False
            try:
                with arrival.fetched() as order:
                    whole = not self.book.take(order, BY).read.aside.rows
            except Permanent as error:
                self.last[arrival.name] = str(error)
                _log.warning("bill not imported", file=arrival.name, why=str(error))
            else:
                self.last.pop(arrival.name, None)
            if whole:
                self.waiting.pop(arrival.name, None)
            else:
                self.waiting[arrival.name] = priced
            arrival.done()

    def _new(self, again: Collection[str]) -> Iterator[Arrival]:
        for place in self.places():
            yield from place.arrivals(self.book.clock.now(), again)
