"""What should run where, and what was seen to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, case, func, select, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.decision import Action, ActionKind
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, Want
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import ReplicaRecord
from tidegate.model.usage import Holding
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.schema import host_revision, replica, term
from tidegate.wire import Desired, DesiredReplica

_WANTS = {
    ActionKind.DRAIN: Want.DRAIN,
    ActionKind.RESUME: Want.RUN,
    ActionKind.CANCEL: Want.STOP,
    ActionKind.GIVE_UP: Want.STOP,
}
_SEEN = ("state", "since", "ready_at", "stopped_at", "cut_requests", "why")
"""What observation may change; the rest is the wish."""
_THEIRS = (*_SEEN, "pool", "serial", "host", "gpus", "gpu_count", "port")
"""Of an engine that the operator runs himself everything is observed."""

_NEWEST_EPOCH = select(func.coalesce(func.max(term.c.epoch), 0)).scalar_subquery()


class StoredReplicas:
    """Implements the port `Replicas`."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence

    def load(self) -> Sequence[ReplicaRecord]:
        """Every replica that is not stopped, by pool and serial."""
        with self._database.begin() as connection:
            rows = connection.execute(_live()).mappings().all()
        return [_record(row) for row in rows]

    def next_serials(self) -> Mapping[PoolName, int]:
        """One above the highest serial ever used in each pool."""
        query = select(replica.c.pool, func.max(replica.c.serial) + 1).group_by(replica.c.pool)
        with self._database.begin() as connection:
            return {PoolName(pool): serial for pool, serial in connection.execute(query)}

    def apply(self, actions: Sequence[Action], policy: FleetPolicy, now: datetime) -> frozenset[HostName]:
        """Turn actions into wishes and raise the revision of every host that this changes; returns those hosts.

        A start of a replica that exists, and any other action that repeats what is wanted already (or that names a
        replica which is stopped or not ours) changes nothing. Raises ValueError for a start without a slot.
        """
        touched = set()
        with self._database.begin() as connection:
            self._fence.check(connection)
            for action in actions:
                starts = action.kind is ActionKind.START
                name = _start(connection, action, policy, now) if starts else _turn(connection, action)
                if name is not None:
                    touched.add(name)
            _raise(connection, touched)
        return frozenset(touched)

    def observe(self, seen: Sequence[ReplicaRecord]) -> None:
        """Write what was seen; adds unmanaged ones. A replica that leaves or returns raises its host's revision."""
        if not seen:
            return
        with self._database.begin() as connection:
            self._fence.check(connection)
            query = select(replica.c.id, replica.c.state, replica.c.host, replica.c.managed)
            ids = sorted({record.id for record in seen})
            found = connection.execute(query.where(replica.c.id.in_(ids)).order_by(replica.c.id).with_for_update())
            known = {row.id: row for row in found}
            for record in seen:
                _write_seen(connection, record)
            _raise(connection, {known[r.id].host for r in seen if r.id in known and _left(known[r.id], r)})

    def desired(self, host: HostName) -> Desired:
        """The host's complete desired state, under the current epoch; revision and content of one moment."""
        with self._database.begin() as connection:
            # The revision first: what is added after it is read again under the next one.
            revision = connection.execute(
                select(
                    _NEWEST_EPOCH.label("epoch"),
                    select(func.coalesce(func.max(host_revision.c.revision), 0))
                    .where(host_revision.c.host == host)
                    .scalar_subquery()
                    .label("revision"),
                )
            ).one()
            rows = connection.execute(_live().where(replica.c.host == host, replica.c.managed)).all()
        return Desired(epoch=revision.epoch, revision=revision.revision, replicas=[_wanted(row) for row in rows])

    def positions(self) -> Mapping[HostName, tuple[int, int]]:
        """(epoch, revision) of the desired state of every host that ever had one."""
        query = select(host_revision.c.host, _NEWEST_EPOCH, host_revision.c.revision)
        with self._database.begin() as connection:
            return {HostName(name): (number, revision) for name, number, revision in connection.execute(query)}

    def holdings(self, since: datetime, until: datetime, policy: FleetPolicy) -> Sequence[Holding]:
        """Which replica held GPUs between the two moments, clipped to them; from its request to its end.

        A pool that the policy no longer names has no price.
        """
        failed_at = case((replica.c.state == ReplicaState.FAILED, replica.c.since))
        start = func.greatest(replica.c.requested_at, since).label("start")
        end = func.least(func.coalesce(replica.c.stopped_at, failed_at, until), until).label("end")
        query = select(replica.c.id, replica.c.pool, replica.c.host, replica.c.gpu_count, replica.c.flavour, start, end)
        with self._database.begin() as connection:
            rows = connection.execute(query.where(start < end).order_by(start, replica.c.id)).all()
        return [_holding(row, policy) for row in rows]


def _live() -> Any:
    order = (replica.c.pool, replica.c.serial, replica.c.id)
    return select(replica).where(replica.c.state != ReplicaState.STOPPED).order_by(*order)


def _start(connection: Connection, action: Action, policy: FleetPolicy, now: datetime) -> HostName | None:
    if action.slot is None:
        raise ValueError(f"the start of {action.replica} names no slot")
    pool, slot = policy.pools[action.pool], action.slot
    record = ReplicaRecord(
        id=action.replica,
        pool=action.pool,
        host=slot.host,
        template=pool.flavour_of(slot.flavour).template,
        slot=slot.slot,
        gpus=slot.gpus,
        gpu_count=pool.gpus_per_replica,
        port=slot.port,
        want=Want.RUN,
        state=ReplicaState.REQUESTED,
        since=now,
        requested_at=now,
        deadline=action.deadline,
        why=action.reason,
        flavour=slot.flavour,
    )
    new = insert(replica).values(**_row(record, pool.service)).on_conflict_do_nothing().returning(replica.c.host)
    return connection.execute(new).scalar_one_or_none()


def _turn(connection: Connection, action: Action) -> HostName | None:
    want = _WANTS[action.kind]
    changing = (
        update(replica)
        .where(
            replica.c.id == action.replica,
            replica.c.managed,
            replica.c.state != ReplicaState.STOPPED,
            replica.c.want != want,
        )
        .values(want=want, deadline=action.deadline, why=action.reason)
        .returning(replica.c.host)
    )
    name = connection.execute(changing).scalar_one_or_none()
    return None if name is None else HostName(name)


def _write_seen(connection: Connection, record: ReplicaRecord) -> None:
    new = insert(replica).values(**_row(record, ""))
    changing = {name: new.excluded[name] for name in (_SEEN if record.managed else _THEIRS)}
    same_keeper = replica.c.managed == new.excluded.managed
    connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=changing, where=same_keeper))


def _left(known: Any, seen: ReplicaRecord) -> bool:
    """True when a replica of ours enters or leaves the desired state by what was seen."""
    return bool(known.managed) and (known.state == ReplicaState.STOPPED) != (seen.state is ReplicaState.STOPPED)


def _raise(connection: Connection, hosts: Collection[str]) -> None:
    if not hosts:
        return
    new = insert(host_revision).values([{"host": name, "revision": 1} for name in sorted(hosts)])
    connection.execute(
        new.on_conflict_do_update(index_elements=["host"], set_={"revision": host_revision.c.revision + 1})
    )


def _row(record: ReplicaRecord, service: str) -> dict[str, Any]:
    values = asdict(record)
    return values | {"gpus": list(record.gpus), "service": service, "serial": _serial(record.id, record.pool)}


def _serial(replica_id: ReplicaId, pool: PoolName) -> int:
    """N of POOL-N; 0 for an id of another make."""
    digits = replica_id.removeprefix(f"{pool}-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else 0


def _record(row: RowMapping) -> ReplicaRecord:
    values = {name: value for name, value in row.items() if name not in ("serial", "service")}
    values |= {"gpus": tuple(row["gpus"]), "want": Want(row["want"]), "state": ReplicaState(row["state"])}
    return ReplicaRecord(**values)


def _wanted(row: Any) -> DesiredReplica:
    return DesiredReplica(
        replica_id=row.id,
        pool=row.pool,
        service=row.service,
        template=row.template,
        slot=row.slot or 0,
        gpus=row.gpus,
        port=row.port,
        want=Want(row.want),
        deadline=row.deadline.timestamp() if row.deadline else None,
    )


def _holding(row: Any, policy: FleetPolicy) -> Holding:
    pool = policy.pools.get(PoolName(row.pool))
    flavour = pool.flavour_of(row.flavour) if pool else None
    return Holding(
        replica=ReplicaId(row.id),
        pool=PoolName(row.pool),
        gpus=row.gpu_count,
        start=row.start,
        end=row.end,
        price_per_gpu_hour=flavour.price_per_gpu_hour if flavour else None,
        currency=flavour.currency if flavour else "",
        host=row.host,
    )
