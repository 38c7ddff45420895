"""How a flavour whose starts fail is left alone for a while, by the class of the failure, in policy time.

What a retry can mend soon (health, a time-out) is tried again soon; what only a person or a provider mends (quota,
authentication, a model that does not load) is asked rarely. Each pause doubles up to a longest one. Where others of the
flavour serve, a replica that failed is chance until a few have in a row: it is replaced at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidegate.decide.failure import failure_class
from tidegate.decide.supply import UNWANTED, Supply, why_lost
from tidegate.model.fleet import FailureClass, Replica
from tidegate.model.memory import BackOff, PoolMemory
from tidegate.model.policy import PoolPolicy

_PAUSES = {
    FailureClass.HEALTH: (30, 600),
    FailureClass.TIME_OUT: (30, 600),
    FailureClass.SOLD_OUT: (60, 900),
    FailureClass.QUOTA: (120, 1800),
    FailureClass.IMAGE: (120, 3600),
    FailureClass.AUTHENTICATION: (300, 3600),
}
"""The first pause and the longest one, in seconds."""
_BY_CHANCE = frozenset({FailureClass.HEALTH, FailureClass.IMAGE})
_CHANCES = 2
"""So many failures in a row are chance where the flavour is known to work."""
_LONG = timedelta(seconds=120)
_DOUBLINGS = 12  # beyond every longest pause


def pause_after(failures: int, kind: FailureClass) -> timedelta:
    """How long no start is tried after so many failures in a row."""
    first, longest = _PAUSES[kind]
    return timedelta(seconds=min(first * (1 << min(max(failures - 1, 0), _DOUBLINGS)), longest))


def with_failures(memory: PoolMemory, supply: Supply, now: datetime) -> PoolMemory:
    """Count replicas that were lost since the last tick, once each; forget failures once a later start is ready.

    What is lost while its flavour is already left alone was ordered before and is the same trouble: it lengthens the
    pause but does not double it again.
    """
    seen = frozenset(replica.id for replica in supply.in_sight)
    known = tuple(replica for replica in memory.counted if replica in seen)
    fresh = tuple(r for r in supply.lost if r.managed and r.want not in UNWANTED and r.id not in known)
    held = {name: _not_ahead(one, now) for name, one in memory.back_offs.items() if not _mended(name, one, supply)}
    for name in sorted({flavour_name(supply.pool, replica) for replica in fresh}):
        works = any(replica.managed and flavour_name(supply.pool, replica) == name for replica in supply.ready)
        lost = [replica for replica in fresh if flavour_name(supply.pool, replica) == name]
        held[name] = _longer(held.get(name), lost, _CHANCES if works else 0, now)
    return replace(memory, counted=known + tuple(replica.id for replica in fresh), back_offs=held)


def back_off_of(memory: PoolMemory, flavour: str, now: datetime) -> BackOff | None:
    """The back-off in force of a flavour; None while it may start replicas."""
    found = memory.back_offs.get(flavour)
    return found if found is not None and found.until > now else None


def flavour_name(pool: PoolPolicy, replica: Replica) -> str:
    """The name of the flavour that a replica was started as."""
    return pool.flavour_of(replica.flavour).name


def _longer(before: BackOff | None, lost: Sequence[Replica], chances: int, now: datetime) -> BackOff:
    worst = max(lost, key=lambda replica: (_PAUSES[failure_class(replica)], replica.id))
    kind, last = failure_class(worst), lost[-1]
    failures = 1 if before is None else max(1, before.failures) + (before.until <= now)
    why = f"{last.id} {why_lost(last, now)}"
    counts = failures - chances if kind in _BY_CHANCE else failures
    pause = pause_after(counts, kind) if counts > 0 else timedelta()
    return BackOff(now + pause, failures, kind, why, now)


def _mended(name: str, held: BackOff, supply: Supply) -> bool:
    """True once a replica that was requested after the pause is ready."""
    return any(
        replica.managed
        and max(replica.requested_at, replica.since) >= (held.at or held.until)
        and flavour_name(supply.pool, replica) == name
        for replica in supply.ready
    )


def on_trial(memory: PoolMemory, supply: Supply, flavour: str, now: datetime) -> int | None:
    """How many starts a flavour may try after a long pause: one at a time until one is ready; None: any number."""
    held = memory.back_offs.get(flavour)
    if held is None or held.until > now or min(_given(held), pause_after(held.failures, held.kind)) < _LONG:
        return None
    tried = [one for one in supply.starting if one.managed and flavour_name(supply.pool, one) == flavour]
    return 0 if any(one.requested_at >= held.until for one in tried) else 1


def _given(held: BackOff) -> timedelta:
    """The pause as it was given; of a memory that does not tell, the longest."""
    return held.until - held.at if held.at else timedelta.max


def _not_ahead(held: BackOff, now: datetime) -> BackOff:
    at = None if held.at is None else min(held.at, now)
    return replace(held, until=min(held.until, now + pause_after(held.failures, held.kind)), at=at)
