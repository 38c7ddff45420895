"""What a tick thinks about: the fleet as observed now, and the replicas' records brought up to date. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.controller.advance import abandon, advance, discover
from tidegate.controller.gateways import gateways
from tidegate.controller.governed import external_wishes
from tidegate.controller.hostview import Freshness, HostView, Sources, host_views
from tidegate.controller.places import by_host, free_slots, nameless_engines
from tidegate.controller.signals import replica_signals
from tidegate.model.fleet import Fleet, PoolName, PoolView, Replica, ReplicaState
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import ReplicaRecord


@dataclass(frozen=True, slots=True)
class Gathered:
    """One look at the fleet."""

    fleet: Fleet
    records: tuple[ReplicaRecord, ...]
    """Every replica that is not stopped, as observed."""
    changed: tuple[ReplicaRecord, ...]
    """Those that the store does not know like this yet, stopped ones included."""
    views: Mapping[HostName, HostView]
    notes: tuple[str, ...]
    """What was seen and left out, in words."""


def gather(sources: Sources, policy: FleetPolicy, freshness: Freshness, now: datetime) -> Gathered:
    """The fleet at `now`, from what each host said last and the readings of the view window."""
    views = host_views(sources, freshness, now)
    revoked = {host.name for host in sources.hosts if host.revoked}
    observed = [
        abandon(record, now) if record.host in revoked else advance(record, views.get(record.host), now)
        for record in sources.records
    ]
    known = {record.id: record for record in sources.records}
    for view in views.values():
        observed += discover(view, known, policy.pools, now)
    standing = tuple(record for record in observed if record.state is not ReplicaState.STOPPED)
    members: dict[PoolName, list[Replica]] = {}
    for record in standing:
        if record.pool in policy.pools:
            replica = _replica(record, views.get(record.host), freshness, now)
            members.setdefault(record.pool, []).append(replica)
    held = by_host(standing)
    pools = {
        name: PoolView(name, tuple(members.get(name, ())), free_slots(pool, policy.hosts, views, held))
        for name, pool in policy.pools.items()
    }
    changed = tuple(
        record for record in observed if (before := known.get(record.id)) is not record and before != record
    )
    doors = gateways(views, policy, freshness.stale_after, now)
    fleet = Fleet(now, pools, doors, external_wishes(policy, sources.asked, now))
    return Gathered(fleet, standing, changed, views, _notes(views, policy))


def _replica(record: ReplicaRecord, view: HostView | None, freshness: Freshness, now: datetime) -> Replica:
    return Replica(
        id=record.id,
        pool=record.pool,
        host=record.host,
        state=record.state,
        since=record.since,
        requested_at=record.requested_at,
        gpus=record.gpu_count,
        slot=record.slot,
        managed=record.managed,
        want=record.want,
        deadline=record.deadline,
        why=record.why,
        flavour=record.flavour,
        signals=replica_signals(record, view, freshness, now),
    )


def _notes(views: Mapping[HostName, HostView], policy: FleetPolicy) -> tuple[str, ...]:
    flavours = (flavour for pool in policy.pools.values() for flavour in pool.flavours if flavour.template)
    offered = {host for flavour in flavours for host in flavour.hosts}
    notes: list[str] = []
    for name, view in sorted(views.items()):
        notes += _unknown_pools(view, policy.pools)
        if name in offered and (nameless := nameless_engines(view)):
            notes.append(
                f"host {name}: engine {nameless[0]} does not say which GPUs it holds; no replica is started there "
                "until its [[engine]] has gpu_indices"
            )
    return tuple(notes)


def _unknown_pools(view: HostView, pools: Mapping[PoolName, object]) -> Sequence[str]:
    return [
        f"host {view.name}: engine {engine.name} names pool {engine.pool!r}, which no [[pool]] declares; not counted"
        for engine in view.own_engines()
        if engine.pool and engine.pool not in pools
    ]
