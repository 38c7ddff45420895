"""What the flavours of a pool mean: places that exist, prices in one currency, times that fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from tidegate.config.lines import KeyPath
from tidegate.config.schema_fleet import FlavourTable, PoolTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.policy import Flavour, HostPolicy
from tidegate.model.reading import HostName

Hosts = Mapping[HostName, HostPolicy]


class _At:
    """The places of one flavour's keys; the pool's own place where the short form has no flavour written."""

    def __init__(self, entry: Entry[PoolTable], position: int) -> None:
        self._place, self._written = entry.at("flavour"), entry.at("flavour") != entry.path
        self._position = position

    def __call__(self, key: str) -> KeyPath:
        return (*self._place, self._position, key) if self._written else self._place


def pool_flavours(scope: Scope, entry: Entry[PoolTable], hosts: Hosts, currency: str) -> tuple[Flavour, ...]:
    """The pool's flavours in order of preference; one that starts nothing where none is written."""
    tables = entry.table.flavour or (FlavourTable(),)
    _check_names(scope, entry)
    flavours = []
    for position, table in enumerate(tables):
        at = _At(entry, position)
        _check_times(scope, table, at)
        _check_limit(scope, entry, table, at)
        flavours.append(
            Flavour(
                name=table.name,
                template=table.template or "",
                hosts=_places(scope, table, hosts, at),
                price_per_gpu_hour=_price(scope, entry, table),
                currency=currency,
                start_deadline=table.start_deadline_seconds,
                drain_deadline=table.drain_deadline_seconds,
                start_time=table.start_seconds,
                minimum_hold=table.minimum_hold_seconds,
                billing_increment=table.billing_increment_seconds,
                gpu_limit=table.gpu_limit,
            )
        )
    return tuple(flavours)


def _check_names(scope: Scope, entry: Entry[PoolTable]) -> None:
    """What was learned of a flavour is remembered under its name."""
    seen: set[str] = set()
    for position, table in enumerate(entry.table.flavour):
        if table.name in seen:
            scope.findings.problem(
                (*entry.at("flavour"), position, "name"),
                f'two flavours of this pool are called "{table.name}": give each a name of its own',
            )
        elif seen and not table.template:
            scope.findings.problem(
                (*entry.at("flavour"), position, "template"),
                "is required and missing: of several flavours each must be able to start a replica",
            )
        seen.add(table.name)


def _check_times(scope: Scope, table: FlavourTable, at: _At) -> None:
    start, deadline = table.start_seconds, table.start_deadline_seconds
    if start is not None and start >= deadline:
        scope.findings.problem(
            at("start_seconds"),
            f"is {start.total_seconds():g}, but must be below start_deadline_seconds"
            f" ({deadline.total_seconds():g}): else every start is given up",
            also=[at("start_deadline_seconds")],
        )


def _check_limit(scope: Scope, entry: Entry[PoolTable], table: FlavourTable, at: _At) -> None:
    if table.gpu_limit is not None and table.gpu_limit < entry.table.gpus_per_replica:
        scope.findings.problem(
            at("gpu_limit"),
            f"is {table.gpu_limit}, but a replica takes {entry.table.gpus_per_replica} GPUs: none could ever start",
            also=[entry.at("gpus_per_replica")],
        )


def _places(scope: Scope, flavour: FlavourTable, hosts: Hosts, at: _At) -> tuple[HostName, ...]:
    """The hosts of a flavour: those it names, else every `[[host]]`; none for pools that are only observed."""
    named = flavour.hosts
    if flavour.template is None:
        if named:
            scope.findings.problem(at("hosts"), "needs a template: what is to be started there?")
        return ()
    if scope.tables.named["template"] and not scope.known(flavour.template, "template"):
        scope.findings.problem(at("template"), scope.unknown(flavour.template, "template"))
    if not scope.tables.named["host"]:
        scope.findings.problem(
            at("template"), "has no place to run: add a [[host]] with its name and gpus", also=[at("hosts")]
        )
    chosen = tuple(hosts) if named is None else tuple(HostName(name) for name in named)
    for position, name in enumerate(named or ()):
        place = (*at("hosts"), position)
        if not scope.known(name, "host"):
            scope.findings.problem(place, scope.unknown(name, "host"))
        elif name in chosen[:position]:
            scope.findings.problem(place, f'the host "{name}" stands twice in this list')
    return chosen


def _price(scope: Scope, entry: Entry[PoolTable], flavour: FlavourTable) -> Decimal | None:
    """The nearest price wins: the flavour's, the pool's, `[cost]`'s."""
    prices = (flavour.price_per_gpu_hour, entry.table.price_per_gpu_hour, scope.tables.cost.table.price_per_gpu_hour)
    return next((price for price in prices if price is not None), None)


def flavour_currencies(entry: Entry[PoolTable]) -> Iterator[tuple[KeyPath, str]]:
    """Every currency that a pool's flavours name, with its place."""
    for position, flavour in enumerate(entry.table.flavour):
        if flavour.currency:
            yield (*entry.at("flavour"), position, "currency"), flavour.currency
