"""Wakes the long polls of hosts from any thread; a poll that waits costs a future, not a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from tidegate.model.reading import HostName

_Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Bell:
    """`listen` before looking, `wait`, and `leave`: a ring in between is never lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[HostName, set[_Waiter]] = {}
        self.closed = False

    def listen(self, host: HostName) -> asyncio.Event:
        """An event that the next ring for the host sets; call on the event loop, and `leave` afterwards."""
        event = asyncio.Event()
        with self._lock:
            self._waiters.setdefault(host, set()).add((asyncio.get_running_loop(), event))
        return event

    def leave(self, host: HostName, event: asyncio.Event) -> None:
        """Forget the event."""
        with self._lock:
            left = {waiter for waiter in self._waiters.get(host, set()) if waiter[1] is not event}
            if left:
                self._waiters[host] = left
            else:
                self._waiters.pop(host, None)

    def ring(self, hosts: Iterable[HostName]) -> None:
        """Wake everyone who waits for one of the hosts; from any thread."""
        with self._lock:
            waiters = [waiter for host in hosts for waiter in self._waiters.get(host, ())]
        for loop, event in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Wake everyone for good: the server is about to stop, and nobody shall wait any more."""
        with self._lock:
            self.closed = True
            hosts = list(self._waiters)
        self.ring(hosts)
