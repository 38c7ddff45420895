"""What pools, flavours and hosts mean: bounds that hold, places that exist, one currency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from tidegate.config.lines import KeyPath
from tidegate.config.meaning_flavours import Hosts, flavour_currencies, pool_flavours
from tidegate.config.meaning_schedules import pool_schedules
from tidegate.config.schema_fleet import PoolTable
from tidegate.config.scope import Scope
from tidegate.config.settings import Settings
from tidegate.config.tables import Entry
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import FleetPolicy, HostPolicy, PoolPolicy
from tidegate.model.reading import HostName

_DEFAULT = Settings(path=Path(), fleet=FleetPolicy(services={}, pools={}))


def host_policies(scope: Scope) -> Hosts:
    """Every `[[host]]` by name, in the order of the file."""
    hosts: dict[HostName, HostPolicy] = {}
    for entry in scope.unique(scope.tables.hosts, "host"):
        table = entry.table
        if table.first_port + table.gpus - 1 > 65535:
            scope.findings.problem(
                entry.at("first_port"),
                f"is {table.first_port}: with {table.gpus} GPUs the last slot would listen beyond port 65535;"
                f" at most {65536 - table.gpus}",
                also=[entry.at("gpus")],
            )
        hosts[HostName(table.name)] = HostPolicy(HostName(table.name), table.gpus, table.first_port, table.address)
    return hosts


def fleet_currency(scope: Scope) -> str:
    """The one currency of the file; a second one is a problem, since no exchange rate is ever assumed."""
    given = list(_currencies(scope))
    if not given:
        return _DEFAULT.currency
    (first_at, first), *others = given
    for place, currency in others:
        if currency != first:
            line = scope.findings.line(first_at)
            scope.findings.problem(
                place, f"is {currency}, but line {line} says {first}: amounts of two currencies are never added"
            )
    return first


def _currencies(scope: Scope) -> Iterator[tuple[KeyPath, str]]:
    if scope.tables.cost.table.currency:
        yield scope.tables.cost.at("currency"), scope.tables.cost.table.currency
    for entry in scope.tables.pools:
        if entry.table.currency:
            yield entry.at("currency"), entry.table.currency
        yield from flavour_currencies(entry)


def pool_policies(
    scope: Scope, services: Set[ServiceName], hosts: Hosts, currency: str
) -> Mapping[PoolName, PoolPolicy]:
    """Every pool by name, in the order of the file."""
    pools: dict[PoolName, PoolPolicy] = {}
    for entry in scope.unique(scope.tables.pools, "pool"):
        table = entry.table
        name = PoolName(table.name)
        _check_bounds(scope, entry)
        pools[name] = PoolPolicy(
            name=name,
            service=_service(scope, entry, services),
            kind=table.kind,
            role=table.role,
            min=table.min,
            max=max(table.min, table.max),
            gpus_per_replica=table.gpus_per_replica,
            flavours=pool_flavours(scope, entry, hosts, currency),
            schedules=pool_schedules(scope, entry),
        )
        _check_room(scope, entry, pools[name], hosts)
    _note_unpriced(scope, pools)
    _note_observed(scope, pools)
    return pools


def _check_bounds(scope: Scope, entry: Entry[PoolTable]) -> None:
    if entry.table.min > entry.table.max:
        key = entry.at("max") if entry.has("max") else entry.at("min")
        said = "" if entry.has("max") else ", its default"
        scope.findings.problem(
            key,
            f"the smallest number of replicas ({entry.table.min}) is above the largest ({entry.table.max}{said})",
            also=[entry.at("min"), entry.at("max")],
        )


def _service(scope: Scope, entry: Entry[PoolTable], services: Set[ServiceName]) -> ServiceName:
    name = entry.table.service
    if name is not None:
        if not scope.known(name, "service", services):
            scope.findings.problem(entry.at("service"), scope.unknown(name, "service", services))
        return ServiceName(name)
    everyone = {*services, *scope.tables.named["service"]} - {""}
    if len(everyone) != 1:
        hint = f"one of {', '.join(sorted(everyone))}" if everyone else "this file has no [[service]] yet: add one"
        scope.findings.problem(entry.at("service"), f"is required and missing; {hint}")
        return ServiceName("")
    return ServiceName(everyone.pop())


def _check_room(scope: Scope, entry: Entry[PoolTable], pool: PoolPolicy, hosts: Hosts) -> None:
    """Each host can hold a replica, and together they can hold them all."""
    named = dict.fromkeys(name for flavour in pool.flavours for name in flavour.hosts)
    places = [hosts[name] for name in named if name in hosts]
    for host in places:
        if pool.gpus_per_replica > host.gpus:
            scope.findings.problem(
                entry.at("gpus_per_replica"),
                f"is {pool.gpus_per_replica}, but host {host.name} has {host.gpus} GPUs: no replica fits there",
            )
    room = sum(host.gpus // pool.gpus_per_replica for host in places)
    if places and pool.max > room:
        scope.findings.note(entry.at("max"), f"is {pool.max}, but its hosts have room for {room} replicas")


def _note_unpriced(scope: Scope, pools: Mapping[PoolName, PoolPolicy]) -> None:
    free = [
        name for name, pool in pools.items() if any(flavour.price_per_gpu_hour is None for flavour in pool.flavours)
    ]
    if free:
        scope.findings.note(
            scope.tables.cost.path if "cost" in scope.tables.present else (),
            f"no price_per_gpu_hour for {', '.join(free)}: their cost is not known ([cost] price_per_gpu_hour sets it)",
        )


def _note_observed(scope: Scope, pools: Mapping[PoolName, PoolPolicy]) -> None:
    """Pools that nothing can be started for, said once for each table that makes some."""
    observed: dict[str, list[str]] = {}
    for entry in scope.tables.pools:
        if entry.table.name in pools and not _starts(pools[PoolName(entry.table.name)]):
            observed.setdefault(str(entry.path[0]), []).append(entry.table.name)
    for table, names in observed.items():
        remedy = (
            "a [[pool.flavour]] with a template makes them ours to start"
            if table == "pool"
            else "one [[template]] and its [[host]]s in this file make them ours to start"
        )
        scope.findings.note(
            (table,), f"replicas of {', '.join(names)} are observed, never started or stopped; {remedy}"
        )


def _starts(pool: PoolPolicy) -> bool:
    return any(flavour.template for flavour in pool.flavours)
