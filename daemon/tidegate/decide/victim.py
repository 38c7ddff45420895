"""Which replica goes first, and which comes back first. Ties break by the number in the id, so that a plan repeats."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from tidegate.decide.load import FIRST_WORDS, checked
from tidegate.decide.serial import serial_of
from tidegate.decide.supply import Supply
from tidegate.model.fleet import Replica, ReplicaState, SignalName, Value, Want
from tidegate.model.policy import PoolPolicy
from tidegate.model.reading import Missing

_LAST_MINUTES = timedelta(minutes=5)
_RESUMABLE = frozenset({ReplicaState.READY, ReplicaState.CORDONED, ReplicaState.DRAINING})


def victims(supply: Supply, now: datetime, usual: float | None) -> tuple[Replica, ...]:
    """Replicas in the order in which they would go: the newest starting, silent ones, then those with least to do.

    Only what Tidegate started is here. One that should long speak and does not goes before its siblings: it carries
    about what they do, and what is left is known better. One that has not served for as long as it took to start (by
    the `usual` seconds of starts) goes last.
    """
    starting = [replica for replica in supply.starting if replica.managed]
    ready = [replica for replica in supply.ready if replica.managed]
    starting.sort(key=_youth)
    new = timedelta(seconds=usual or 0.0)
    ready.sort(key=lambda one: (not _mute(one, now), now - one.since < new, _in_flight(one), _youth(one)))
    return (*starting, *ready)


def held(replica: Replica, pool: PoolPolicy, now: datetime) -> bool:
    """True while a replica stays because it is held for a least time, or because its hour is paid.

    A paid step is used up to its last minutes: from then on a drain can end before the next one begins.
    """
    flavour, age = pool.flavour_of(replica.flavour), max(timedelta(), now - replica.requested_at)
    if age < flavour.minimum_hold:
        return True
    step = flavour.billing_increment
    return bool(step) and step - age % step > min(_LAST_MINUTES, step / 4)


def returners(supply: Supply, now: datetime) -> tuple[Replica, ...]:
    """Leaving replicas that can still be taken back, those that stopped taking requests last first."""
    found = [replica for replica in supply.leaving if _can_return(replica, now)]
    return tuple(
        sorted(
            found,
            key=lambda replica: (replica.state is ReplicaState.DRAINING, -_seconds(replica.since), _youth(replica)),
        )
    )


def _can_return(replica: Replica, now: datetime) -> bool:
    in_time = replica.deadline is None or replica.deadline > now or replica.state is ReplicaState.READY
    return replica.managed and replica.want is not Want.STOP and replica.state in _RESUMABLE and in_time


def _mute(replica: Replica, now: datetime) -> bool:
    return now - replica.since >= FIRST_WORDS and math.isinf(_in_flight(replica))


def _in_flight(replica: Replica) -> float:
    signals = [checked(replica.signal(name)) for name in (SignalName.RUNNING, SignalName.WAITING)]
    if any(isinstance(signal, Missing) for signal in signals):
        return math.inf
    return sum((signal.value for signal in signals if isinstance(signal, Value)), 0.0)


def _youth(replica: Replica) -> tuple[float, int, str]:
    return (-_seconds(replica.requested_at), -serial_of(replica), replica.id)


def _seconds(at: datetime) -> float:
    return at.timestamp()
