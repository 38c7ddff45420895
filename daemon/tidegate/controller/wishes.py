"""What is wanted of each host, remembered: reports and long polls ask the database for what has changed alone.

The leader's own changes are known at once (`changed`). What another controller changes is found by `refresh`, which
looks every second at one number a host; so an agent that waits at a controller that stands by is told too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from tidegate.controller.ports import Replicas
from tidegate.model.reading import HostName
from tidegate.wire import Desired

Position = tuple[int, int]
"""(epoch, revision) of a desired state: a state is the same as long as its position is."""


class Wishes:
    """Any thread may ask. A memory that is a second old delays a wish, and never invents one."""

    def __init__(
        self, replicas: Replicas, ring: Callable[[Collection[HostName]], None], epoch: Callable[[], int]
    ) -> None:
        """`ring` ends hosts' waiting; `epoch` is the term that runs, for those of which nothing was ever wanted."""
        self._replicas, self._ring, self._epoch = replicas, ring, epoch
        self._lock = threading.Lock()
        self._positions: Mapping[HostName, Position] | None = None
        """None before the first look."""
        self._stale: set[HostName] = set()
        """Changed by us since the last look."""
        self._changes = 0
        self._kept: dict[HostName, Desired] = {}

    def refresh(self) -> None:
        """Look where every host's desired state stands, and wake those whose moved; raises Transient."""
        with self._lock:
            changes = self._changes
        positions = self._replicas.positions()
        with self._lock:
            known = self._positions or {}
            self._positions = positions
            if changes == self._changes:  # else what was changed meanwhile may be newer than what we read
                self._stale.clear()
        moved = {host for host, position in positions.items() if known.get(host) != position}
        if moved:
            self._ring(moved)

    def changed(self, hosts: Collection[HostName]) -> None:
        """These hosts' desired state was just changed by us."""
        with self._lock:
            self._stale |= set(hosts)
            self._changes += 1
        self._ring(hosts)

    def desired(self, host: HostName) -> Desired:
        """Everything that the host should run; raises Transient when the database is away and was not asked lately."""
        if (kept := self.known(host)) is not None:
            return kept
        found = self._replicas.desired(host)
        with self._lock:
            self._kept[host] = found
        return found

    def known(self, host: HostName) -> Desired | None:
        """What the host should run, as long as that is certain without asking; never blocks."""
        with self._lock:
            position, kept = self._position(host), self._kept.get(host)
        return kept if kept is not None and position == (kept.epoch, kept.revision) else None

    def _position(self, host: HostName) -> Position | None:
        if self._positions is None or host in self._stale:
            return None
        return self._positions.get(host, (self._epoch(), 0))
