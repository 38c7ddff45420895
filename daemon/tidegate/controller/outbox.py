"""What hosts have said and has not been fetched yet: bounded, and what is given up for that is counted."""

from __future__ import annotations

from collections import Counter, deque
from threading import Condition

from tidegate.controller.heard import Heard, Told

UNSEEN = "unseen"
"""The fate of reports that are stored, but that no tick will have in memory."""
_MOST_BYTES = 64 * 1024 * 1024
"""Of vectors and states: what 2,000 hosts report in most of a minute. Who does not fetch it for so long hangs."""
_MOST_HEARD = 100_000


class Outbox:
    """Implements `Listener`; `fetch` is for another thread."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._news = Condition()
        self._most, self._bytes = most_bytes, 0
        self._heard: deque[Heard] = deque()
        self._fates: Counter[str] = Counter()
        self._closed = False

    def hear(self, told: Told) -> None:
        """Keep it until it is fetched; the oldest goes first where there is no room."""
        with self._news:
            self._fates.update(told.fates)
            self._heard += told.heard
            self._bytes += sum(map(_size, told.heard))
            while self._bytes > self._most or len(self._heard) > _MOST_HEARD:
                oldest = self._heard.popleft()
                self._bytes -= _size(oldest)
                self._fates[UNSEEN] += len(oldest.looks)
            self._news.notify()

    def fetch(self, seconds: float) -> Told:
        """Everything that there is; waits so long for the first of it, and not at all once closed."""
        with self._news:
            self._news.wait_for(lambda: self._heard or self._fates or self._closed, seconds)
            told = Told(tuple(self._heard), dict(self._fates))
            self._heard.clear()
            self._fates.clear()
            self._bytes = 0
        return told

    def close(self) -> None:
        """Nobody need wait any more."""
        with self._news:
            self._closed = True
            self._news.notify_all()


def _size(heard: Heard) -> int:
    return len(heard.state or b"") + sum(len(look.values) for look in heard.looks)
