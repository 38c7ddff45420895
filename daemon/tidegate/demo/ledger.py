"""The gateway's own books: which request was sent where, and what became of it. Pure; independent of Tidegate.

Every request is in exactly one place: waiting for an endpoint, on its way to one, outstanding there, finished or lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.demo.engine_model import Arrival

GIVE_UP_AFTER = 5
"""An endpoint that refuses so many connections in a row is gone, and what was outstanding there is lost."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One request that an engine took and never answered."""

    id: int
    endpoint: str
    at: float


@dataclass(slots=True)
class Book:
    """What one endpoint has been given."""

    routable: bool = True
    unsent: dict[int, Arrival] = field(default_factory=dict)
    """Assigned, and not yet known to be taken."""
    outstanding: dict[int, Arrival] = field(default_factory=dict)
    collected: int = 0
    """Finished ids fetched from this engine process."""
    started: float | None = None
    """When the engine process began, as it says: another value is another process."""
    refusals: int = 0

    @property
    def load(self) -> int:
        """Requests that the endpoint owes an answer."""
        return len(self.unsent) + len(self.outstanding)


@dataclass(frozen=True, slots=True)
class Reply:
    """An engine's answer to an exchange."""

    started: float
    first: int
    """How many finished ids were fetched before the first of `finished`."""
    finished: Sequence[int]
    stopping: bool
    refused: Sequence[int]


class Ledger:
    """The books of every endpoint, and the totals."""

    def __init__(self) -> None:
        self.arrived = 0
        self.finished = 0
        self.tokens = 0
        """Prompt and output tokens of the finished requests."""
        self.moved = 0
        """Requests that went to another endpoint because the first one refused them; none of them is lost."""
        self.losses: list[Loss] = []
        self.waiting: deque[Arrival] = deque()
        """Requests for which there is no endpoint yet."""
        self.books: dict[str, Book] = {}

    @property
    def outstanding(self) -> int:
        """Requests that some endpoint owes an answer."""
        return sum(book.load for book in self.books.values())

    def arrive(self, arrivals: Iterable[Arrival]) -> None:
        """Take new requests from the clients."""
        for arrival in arrivals:
            self.arrived += 1
            self.waiting.append(arrival)

    def set_endpoints(self, endpoints: Iterable[str]) -> None:
        """Send to these from now on; to others nothing new, but their answers are still awaited."""
        wanted = set(endpoints)
        for name in wanted - self.books.keys():
            self.books[name] = Book()
        for name, book in list(self.books.items()):
            book.routable = name in wanted
            if not book.routable and not book.load:
                del self.books[name]

    def assign(self) -> None:
        """Give every waiting request to the endpoint that owes the fewest answers."""
        while self.waiting:
            open_books = [book for book in self.books.values() if book.routable and not book.refusals]
            if not open_books:
                return
            arrival = self.waiting.popleft()
            min(open_books, key=lambda book: book.load).unsent[arrival.id] = arrival

    def answered(self, name: str, sent: Sequence[Arrival], reply: Reply, now: float) -> None:
        """An exchange succeeded: the engine took what was sent (unless it is stopping) and told what is finished."""
        book = self.books[name]
        if book.started is not None and book.started != reply.started:
            self._lose(name, book, now)
        book.started, book.refusals = reply.started, 0
        if not reply.stopping:
            for arrival in sent:
                if book.unsent.pop(arrival.id, None):
                    book.outstanding[arrival.id] = arrival
        for number in reply.finished[max(0, book.collected - reply.first) :]:
            known = book.outstanding.pop(number, None) or book.unsent.pop(number, None)
            if known:
                self.finished += 1
                self.tokens += known.prompt_tokens + known.output_tokens
        book.collected = max(book.collected, reply.first + len(reply.finished))
        if reply.stopping:
            self._close(name, book, reply, now)

    def refused(self, name: str, now: float) -> None:
        """Nobody listened at the endpoint: what was not taken goes elsewhere; after a while the rest is lost."""
        book = self.books[name]
        book.refusals += 1
        self._take_back(book, list(book.unsent))
        if book.refusals >= GIVE_UP_AFTER:
            self._lose(name, book, now)
            del self.books[name]

    def _close(self, name: str, book: Book, reply: Reply, now: float) -> None:
        for number in reply.refused:
            if arrival := book.outstanding.pop(number, None):
                book.unsent[number] = arrival
        self._take_back(book, list(book.unsent))
        self._lose(name, book, now)
        del self.books[name]

    def _take_back(self, book: Book, numbers: Sequence[int]) -> None:
        for number in reversed(numbers):
            self.moved += 1
            self.waiting.appendleft(book.unsent.pop(number))

    def _lose(self, name: str, book: Book, now: float) -> None:
        self.losses += [Loss(number, name, now) for number in sorted(book.outstanding)]
        book.outstanding.clear()
        book.collected = 0
