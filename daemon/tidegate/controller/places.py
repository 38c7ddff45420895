"""Where a new replica of a pool could go: hosts in the operator's order, slots that nobody holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.controller.hostview import HostView
from tidegate.model.fleet import Slot
from tidegate.model.policy import HostPolicy, PoolPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import ReplicaRecord


def free_slots(
    pool: PoolPolicy,
    hosts: Mapping[HostName, HostPolicy],
    views: Mapping[HostName, HostView],
    held: Mapping[HostName, Sequence[ReplicaRecord]],
) -> tuple[Slot, ...]:
    """Free places of every flavour of the pool in order of preference; only on hosts that are heard now.

    Slot k takes GPUs k*g .. k*g+g-1 and port first_port + k. Each of its GPUs must be reported up by the host; a host
    that reads no GPUs at all (no NVML) is trusted to have what the configuration declares. `held`: replicas by host.
    """
    places: list[Slot] = []
    for flavour in pool.flavours:
        for name in flavour.hosts if flavour.template else ():
            host, view = hosts.get(name), views.get(name)
            if host is not None and view is not None and view.heard and not nameless_engines(view):
                taken, offered = held.get(name, ()), _slots(host, pool.gpus_per_replica, flavour.name)
                places += [slot for slot in offered if _is_free(slot, view, taken)]
    return tuple(places)


def by_host(records: Iterable[ReplicaRecord]) -> dict[HostName, list[ReplicaRecord]]:
    """The records of each host, in their order."""
    held: dict[HostName, list[ReplicaRecord]] = {}
    for record in records:
        held.setdefault(record.host, []).append(record)
    return held


def nameless_engines(view: HostView) -> list[str]:
    """The operator's own engines that do not say which GPUs they hold.

    A host with one offers no place: a replica started on a GPU in use takes both down.
    """
    return [engine.name for engine in view.own_engines() if engine.gpus > 0 and not engine.gpu_indices]


def _slots(host: HostPolicy, width: int, flavour: str) -> list[Slot]:
    return [
        Slot(host.name, number, tuple(range(number * width, number * width + width)), host.first_port + number, flavour)
        for number in range(host.gpus // width)
    ]


def _is_free(slot: Slot, view: HostView, records: Sequence[ReplicaRecord]) -> bool:
    if any(_collides(slot, record) for record in records):
        return False
    gpus = frozenset(slot.gpus)
    if any(gpus & frozenset(engine.gpu_indices) for engine in view.own_engines()):
        return False
    return not view.state.gpus or gpus <= {gpu.index for gpu in view.state.gpus if gpu.up}


def _collides(slot: Slot, record: ReplicaRecord) -> bool:
    return record.slot == slot.slot or record.port == slot.port or not frozenset(slot.gpus).isdisjoint(record.gpus)
