"""Which replicas take traffic, and where routers reach them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from tidegate.controller.hostview import unmanaged_id
from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.overview import Endpoint
from tidegate.model.policy import FleetPolicy
from tidegate.model.records import ReplicaRecord
from tidegate.runtime.loopback import is_loopback
from tidegate.wire import HostRecord


def endpoints(
    records: Sequence[ReplicaRecord], hosts: Sequence[HostRecord], policy: FleetPolicy, service: str | None
) -> Iterator[Endpoint]:
    """Ready replicas that are wanted to run; one that is cordoned, draining or about to be is not among them."""
    own = dict(_own_addresses(hosts))
    for record in sorted(records, key=lambda record: record.id):
        pool = policy.pools.get(record.pool)
        takes_traffic = record.state is ReplicaState.READY and record.want is Want.RUN
        if pool is None or not takes_traffic or not record.port or service not in (None, pool.service):
            continue
        declared = policy.hosts.get(record.host)
        address = own.get(record.id) or (declared.address if declared else "") or record.host
        target = f"[{address}]:{record.port}" if ":" in address else f"{address}:{record.port}"
        yield Endpoint(target, record.pool, pool.service, record.id, record.host, record.state)


def _own_addresses(hosts: Sequence[HostRecord]) -> Iterator[tuple[str, str]]:
    """The operator's own engines by id, where their address says more than "this host"."""
    for host in hosts:
        for engine in host.state.engines if host.state else ():
            if not engine.replica_id and (name := _name(engine.url)) and not is_loopback(name):
                yield unmanaged_id(host.name, engine.name), name


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
