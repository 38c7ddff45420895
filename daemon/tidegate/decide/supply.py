"""What the replicas of a pool count for: ready and starting are supply, leaving may come back, lost is neither.

A command counts from the moment it was given (`Replica.want`), an effect only once it was seen (`Replica.state`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.model.fleet import LEAVING_STATES, STARTING_STATES, PoolView, Replica, ReplicaState, Slot, Want
from tidegate.model.policy import PoolPolicy

UNWANTED = frozenset({Want.CORDON, Want.DRAIN, Want.STOP})
"""What a replica is told that should not serve any more."""
_LONGEST_WHY = 300


@dataclass(frozen=True, slots=True)
class Supply:
    """A pool's replicas, each in exactly one place and by id; stopped ones in none."""

    pool: PoolPolicy
    ready: tuple[Replica, ...] = ()
    starting: tuple[Replica, ...] = ()
    leaving: tuple[Replica, ...] = ()
    lost: tuple[Replica, ...] = ()
    """Failed, or still starting after the deadline."""
    free_slots: tuple[Slot, ...] = ()

    @property
    def count(self) -> int:
        """Replicas that serve or will: ready and starting ones."""
        return len(self.ready) + len(self.starting)

    @property
    def most(self) -> int:
        """What it cannot be more than: what others run here beyond its maximum is not ours to stop, and does serve."""
        others = sum(not replica.managed for replica in (*self.ready, *self.starting))
        return max(self.pool.max, others)

    @property
    def in_sight(self) -> tuple[Replica, ...]:
        """Every replica, whatever it counts for."""
        return (*self.ready, *self.starting, *self.leaving, *self.lost)


def supply_of(pool: PoolPolicy, view: PoolView, now: datetime) -> Supply:
    """Sort the replicas of one pool by what they count for."""
    ready: list[Replica] = []
    starting: list[Replica] = []
    leaving: list[Replica] = []
    lost: list[Replica] = []
    for replica in sorted(view.replicas, key=lambda found: found.id):
        if replica.state is ReplicaState.STOPPED:
            continue
        if replica.state is ReplicaState.FAILED:
            lost.append(replica)
        elif replica.state in LEAVING_STATES or replica.want in UNWANTED:
            leaving.append(replica)
        elif replica.state in STARTING_STATES:
            (lost if start_deadline(replica, pool) <= now else starting).append(replica)
        else:
            ready.append(replica)
    return Supply(pool, tuple(ready), tuple(starting), tuple(leaving), tuple(lost), view.free_slots)


def why_lost(replica: Replica, now: datetime) -> str:
    """What is the matter with a lost replica, with what its host says of it."""
    if replica.state is ReplicaState.FAILED:
        found = "failed"
    else:
        seconds = max(0.0, (now - replica.requested_at).total_seconds())
        found = f"still {replica.state.value} {seconds:.0f} s after it was requested"
    # One clause of a sentence: no line breaks, no semicolons, not a whole log.
    said = " ".join(replica.why.replace(";", ",").split())
    return f"{found}: {said[:_LONGEST_WHY]}" if said else found


def start_deadline(replica: Replica, pool: PoolPolicy) -> datetime:
    """When a starting replica is given up: its own deadline, else the pool's counted from the request."""
    return replica.deadline or replica.requested_at + pool.flavour_of(replica.flavour).start_deadline
