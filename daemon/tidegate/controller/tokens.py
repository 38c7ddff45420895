"""Whose token it is, in memory: reports do not ask the database for that."""

from __future__ import annotations

import threading
from datetime import timedelta

from tidegate.controller.ports import HostBook
from tidegate.model.reading import HostName
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Transient

TRUSTED = timedelta(seconds=30)
"""Real time for which a good token is good: so much later a host is refused that another controller revoked."""
RENEW_EVERY = timedelta(seconds=1)
"""Real time: a question for many hosts, in place of one from each of them in every `TRUSTED`."""
_CERTAIN = timedelta(seconds=10)
"""Real time for which a token is not looked at again."""
_SHARE, _FEW = 8, 32
"""At once an eighth of the tokens, or a few: who reads thousands of rows keeps reports waiting for Python's lock."""
_MOST = 100_000


class Tokens:
    """The hosts' tokens that were seen lately, by their hash; any thread may ask."""

    def __init__(self, book: HostBook, certain: timedelta = _CERTAIN) -> None:
        """`certain`: for so long a token is not looked at again."""
        self._book, self._real, self._certain = book, SystemClock(), certain.total_seconds()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[HostName, float]] = {}
        """Whose each is, and when that was certain last."""
        self._distrusted = 0
        """How often tokens were taken away by us: what was read meanwhile may still have them."""

    def trusted(self, token_hash: str) -> HostName | None:
        """Whose token this is, if that is certain without asking."""
        found = self._known.get(token_hash)
        if found is None or self._real.monotonic() - found[1] > TRUSTED.total_seconds():
            return None
        return found[0]

    def authenticate(self, token_hash: str) -> HostName | None:
        """Whose token this is; None when nobody's or revoked.

        While the database is away a token that was good is good: what it brings is shown, and can change nothing.
        """
        if (name := self.trusted(token_hash)) is not None:
            return name
        try:
            name = self._book.authenticate(token_hash)
        except Transient:
            if token_hash not in self._known:
                raise
            return self._known[token_hash][0]
        with self._lock:
            if name is None:
                self._known.pop(token_hash, None)
            else:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[token_hash] = (name, self._real.monotonic())
        return name

    def renew(self) -> None:
        """Look whether the tokens in use are still good, those first that were looked at longest ago.

        Raises Transient, and then they age.
        """
        since = self._real.monotonic()
        with self._lock:
            due = {token: at for token, (_, at) in self._known.items() if since - at >= self._certain}
            distrusted, most = self._distrusted, _FEW + len(self._known) // _SHARE
        used = set(sorted(due, key=due.__getitem__)[:most])
        good = self._book.good_tokens(used) if used else {}
        with self._lock:
            if distrusted == self._distrusted:
                self._known = {
                    token: kept if token not in used else (good[token], since)
                    for token, kept in self._known.items()
                    if token in good or token not in used
                }

    def distrust(self, name: HostName) -> None:
        """Forget the host's token: it was revoked, or there is another."""
        with self._lock:
            self._distrusted += 1
            self._known = {token: kept for token, kept in self._known.items() if kept[0] != name}
