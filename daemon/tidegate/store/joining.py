"""Group commit: what many threads want to write at the same time goes into one transaction.

Whoever comes while nobody writes does the writing, for itself and for all that has come meanwhile; when all of these
have their answers, the first of those that came since goes on. So nobody waits for a timer, a lone writer is not slowed
down, and the busier the store the larger the groups (DeWitt and others, Implementation Techniques for Main Memory
Database Systems, 1984, 3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Generic, TypeVar

from tidegate.runtime.errors import TidegateError, Transient

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class _Turn(Generic[Item, Result]):
    item: Item
    asleep: Lock = field(default_factory=Lock)
    """Held until somebody wakes the one that waits: an Event would do, at five times the price."""
    leads: bool = False
    following: _Turn[Item, Result] | None = None
    """Whom to wake next: all at once they would only queue for the interpreter, at the price of a switch each."""
    last: bool = False
    """The last of its group to be woken: it lets the next group begin, by when the others may have come back."""
    results: list[Result] = field(default_factory=list)
    error: Exception | None = None


class Joining(Generic[Item, Result]):
    """Joins calls of `submit` into calls of `write`, one at a time, each of at most `most` items.

    `write` answers one result an item. When it refuses several items it is called for each alone, so that one that
    cannot be written harms nobody; when the database is away (Transient) all of them fail.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Result]], most: int) -> None:
        self._write, self._most = write, most
        self._lock = Lock()
        self._waiting: deque[_Turn[Item, Result]] = deque()
        self._busy = False

    def submit(self, item: Item) -> Result:
        """Write the item with others; returns or raises what became of it when that is certain."""
        turn: _Turn[Item, Result] = _Turn(item)
        turn.asleep.acquire()
        with self._lock:
            self._waiting.append(turn)
            leads, self._busy = not self._busy, True
        if not leads:
            turn.asleep.acquire()
            if turn.following is not None:
                turn.following.asleep.release()
            elif turn.last:
                self._hand_over()
            leads = turn.leads
        if leads:
            self._lead()
        if turn.error is not None:
            raise turn.error
        if not turn.results:
            raise Transient("the transaction that this was part of has failed")
        return turn.results[0]

    def _lead(self) -> None:
        """Write what waits, the leader's own among it, then wake the others or hand over."""
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        try:
            self._settle(group)
        finally:
            for turn, after in pairwise(group[1:]):  # the first is the leader itself
                turn.following = after
            if len(group) > 1:
                group[-1].last = True
                group[1].asleep.release()
            else:
                self._hand_over()

    def _hand_over(self) -> None:
        """Let the first that waits go on, if there is one."""
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._busy = following is not None
        if following is not None:
            following.leads = True
            following.asleep.release()

    def _settle(self, group: Sequence[_Turn[Item, Result]]) -> None:
        try:
            for turn, result in zip(group, self._write([turn.item for turn in group]), strict=True):
                turn.results.append(result)
        except (TidegateError, ValueError) as error:
            if len(group) == 1 or isinstance(error, Transient):
                for turn in group:
                    turn.error = error
                return
            for turn in group:
                self._settle([turn])
