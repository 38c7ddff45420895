"""Read what a tick needs: hosts, replicas, the recent past, and what is remembered of earlier ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.controller.hostview import Freshness, Sources, ViewsOf, engine_views
from tidegate.controller.ports import Commands, Decisions, Recent, Replicas
from tidegate.controller.roster import Roster
from tidegate.model.fleet import PoolName
from tidegate.model.memory import Memory, PoolMemory
from tidegate.model.reading import Gap, HostName
from tidegate.wire import HostRecord

Follow = Callable[[Sequence[HostRecord], datetime], None]


@dataclass(slots=True)
class Observer:
    """Reads; never writes and never thinks."""

    recent: Recent
    hosts: Roster
    replicas: Replicas
    decisions: Decisions
    follow: Follow
    """Completes the head by what hosts told others."""
    began_at: Callable[[], datetime]
    """When this controller began to lead."""
    commands: Commands
    silent: Callable[[], Mapping[HostName, Gap]] = dict
    """Why there is nothing new of a host, where the source of readings says so."""
    views_of: ViewsOf = engine_views
    _last: Sources | None = field(default=None, init=False)

    def sources(self, freshness: Freshness, now: datetime) -> Sources:
        """What every host said last, its readings of the window, and every replica that is not stopped."""
        # In this order: what a host confirms is read after what was wanted of it, so a change in between only delays.
        records, wanted = self.replicas.load(), self.replicas.positions()
        hosts = self.hosts.all()
        self.follow(hosts, now)
        readings = self.recent.since(now - freshness.view_window, now)
        commands, asked = self.commands.standing(now), self.commands.asked()
        found = Sources(hosts, readings, records, wanted, commands, asked, views_of=self.views_of, silent=self.silent())
        self._last = found
        return found

    def remembered(self, freshness: Freshness, now: datetime) -> Sources | None:
        """What can be known without the database: what hosts say now, over what was last read; None before that.

        Nothing may be decided by it: what is wanted of a replica may have changed since.
        """
        if self._last is None:
            return None
        readings = self.recent.since(now - freshness.view_window, now)
        return replace(self._last, hosts=self.hosts.remembered(), readings=readings)

    def memory(self) -> Memory:
        """What the last tick that was settled remembered, safe to act on after a crash in the middle of a later one."""
        return remembered(self.decisions.memory(), self.began_at(), self.replicas.next_serials())


def remembered(memory: Memory, started_at: datetime, serials: Mapping[PoolName, int]) -> Memory:
    """The memory that this process goes on with: no serial number in it was ever given to a replica.

    A restart is invisible: looking began when the earlier process began, unless nothing is remembered. How long a
    silence in between makes it begin anew is the decision core's to say (`decide/remember.py`).
    """
    pools = dict(memory.pools)
    for name, serial in serials.items():
        known = pools.get(name, PoolMemory())
        pools[name] = replace(known, next_serial=max(known.next_serial, serial))
    return replace(memory, started_at=memory.started_at or started_at, pools=pools)
