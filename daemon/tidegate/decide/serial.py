"""Replica ids: POOL-N, where N is never used twice, so that an old command cannot hit a new replica."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.model.fleet import PoolName, Replica, ReplicaId


def replica_id(pool: PoolName, serial: int) -> ReplicaId:
    """The id of the pool's N-th replica."""
    return ReplicaId(f"{pool}-{serial}")


def serial_of(replica: Replica) -> int:
    """The N of POOL-N; 0 for an id of another form, such as an engine of the operator's own."""
    pool, _, tail = replica.id.rpartition("-")
    return int(tail) if pool == replica.pool and tail.isascii() and tail.isdigit() else 0


def next_serial(remembered: int, replicas: Iterable[Replica]) -> int:
    """The first number that neither memory nor the fleet in sight has used."""
    return max([remembered, *(1 + serial_of(replica) for replica in replicas)])
