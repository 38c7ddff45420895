"""Which replica goes first, and which comes back first. Ties break by the number in the id, so that a plan repeats."""

from __future__ import annotations

import math
from datetime import datetime

from tidegate.decide.load import checked
from tidegate.decide.serial import serial_of
from tidegate.decide.supply import Supply
from tidegate.model.fleet import Replica, ReplicaState, SignalName, Value, Want
from tidegate.model.reading import Missing

_RESUMABLE = frozenset({ReplicaState.READY, ReplicaState.CORDONED, ReplicaState.DRAINING})


def victims(supply: Supply) -> tuple[Replica, ...]:
    """Replicas in the order in which they would go: the newest starting, then the ready one with least to do.

    Only what Tidegate started is here. A replica that does not say what it is doing goes last.
    """
    starting = [replica for replica in supply.starting if replica.managed]
    ready = [replica for replica in supply.ready if replica.managed]
    starting.sort(key=_youth)
    ready.sort(key=lambda replica: (_in_flight(replica), _youth(replica)))
    return (*starting, *ready)


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


def _in_flight(replica: Replica) -> float:
    signals = [checked(replica.signal(name)) for name in (SignalName.RUNNING, SignalName.WAITING)]
    if any(isinstance(signal, Missing) for signal in signals):
        return math.inf
    return sum((signal.value for signal in signals if isinstance(signal, Value)), 0.0)


def _youth(replica: Replica) -> tuple[float, int, str]:
    return (-_seconds(replica.requested_at), -serial_of(replica), replica.id)


def _seconds(at: datetime) -> float:
    return at.timestamp()
