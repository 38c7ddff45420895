"""A file's data into checked tables, each on its own, so that one wrong key hides no other problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from tidegate.config.complaint import complain, unknown_table
from tidegate.config.document import Document
from tidegate.config.findings import Findings
from tidegate.config.foreign import FOREIGN
from tidegate.config.lines import KeyPath
from tidegate.config.mend import mended
from tidegate.config.schema import REPEATED, SINGLE
from tidegate.config.schema_alerts import AlertTable, ChannelTable
from tidegate.config.schema_base import Table
from tidegate.config.schema_bills import BillHostTable, BillsTable
from tidegate.config.schema_fleet import CostTable, HostTable, PoolTable, ServiceTable
from tidegate.config.schema_policies import BudgetTable
from tidegate.config.schema_prometheus import PrometheusTable
from tidegate.config.schema_roles import (
    AgentTable,
    ControllerTable,
    ElasticTable,
    EngineTable,
    ObservabilityTable,
    PdSeparationTable,
    TemplateTable,
)

T = TypeVar("T", bound=Table)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A checked table and where it stands."""

    table: T
    path: KeyPath
    spelling: Mapping[str, str] = field(default_factory=dict)
    """Where the short form was used: the key that stands in the file for a field ("" for the table as a whole)."""

    def at(self, key: str) -> KeyPath:
        """The place of one of its keys."""
        written = self.spelling.get(key, key)
        return (*self.path, written) if written else self.path

    def has(self, key: str) -> bool:
        """Whether the file gives this key, rather than leaving it to its default."""
        return key in self.table.model_fields_set


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that the file says for us, table by table."""

    controller: Entry[ControllerTable]
    prometheus: Entry[PrometheusTable]
    agent: Entry[AgentTable]
    cost: Entry[CostTable]
    bills: Entry[BillsTable]
    budget: Entry[BudgetTable]
    observability: Entry[ObservabilityTable]
    elastic: Entry[ElasticTable]
    pd_separation: Entry[PdSeparationTable]
    services: tuple[Entry[ServiceTable], ...]
    pools: tuple[Entry[PoolTable], ...]
    hosts: tuple[Entry[HostTable], ...]
    engines: tuple[Entry[EngineTable], ...]
    templates: tuple[Entry[TemplateTable], ...]
    alerts: tuple[Entry[AlertTable], ...]
    channels: tuple[Entry[ChannelTable], ...]
    bill_hosts: tuple[Entry[BillHostTable], ...]
    present: frozenset[str]
    """The names of the tables that the file has."""
    named: Mapping[str, frozenset[str]]
    """The names given in each kind of `[[table]]`, those of refused ones too: a reference to one is not unknown."""


def read_tables(document: Document, findings: Findings) -> Tables:
    """Check every table by itself; problems go to `findings`, and what they leave whole is still returned."""
    data = document.data
    _refuse_unknown(data, findings)
    return Tables(
        controller=_single(ControllerTable, data, "controller", findings),
        prometheus=_single(PrometheusTable, data, "prometheus", findings),
        agent=_single(AgentTable, data, "agent", findings),
        cost=_single(CostTable, data, "cost", findings),
        bills=_single(BillsTable, data, "bills", findings),
        budget=_single(BudgetTable, data, "budget", findings),
        observability=_single(ObservabilityTable, data, "observability", findings),
        elastic=_single(ElasticTable, data, "elastic", findings),
        pd_separation=_single(PdSeparationTable, data, "pd_separation", findings),
        services=_repeated(ServiceTable, data, "service", findings),
        pools=_repeated(PoolTable, data, "pool", findings),
        hosts=_repeated(HostTable, data, "host", findings),
        engines=_repeated(EngineTable, data, "engine", findings),
        templates=_repeated(TemplateTable, data, "template", findings),
        alerts=_repeated(AlertTable, data, "alert", findings),
        channels=_repeated(ChannelTable, data, "channel", findings),
        bill_hosts=_repeated(BillHostTable, data, "bill_host", findings),
        present=frozenset(data),
        named={kind: _names(data.get(kind)) for kind in REPEATED},
    )


def _refuse_unknown(data: Mapping[str, Any], findings: Findings) -> None:
    known = [*SINGLE, *REPEATED]
    for name in data:
        if name not in known and name not in FOREIGN:
            findings.problem((name,), unknown_table(name, known))


def _single(model: type[T], data: Mapping[str, Any], name: str, findings: Findings) -> Entry[T]:
    raw = data.get(name, {})
    if isinstance(raw, list):
        findings.problem((name,), f"stands once: write [{name}], not [[{name}]]")
        raw = {}
    table = _checked(model, raw, (name,), findings)
    return Entry(model() if table is None else table, (name,))


def _repeated(model: type[T], data: Mapping[str, Any], name: str, findings: Findings) -> tuple[Entry[T], ...]:
    raw = data.get(name, [])
    if isinstance(raw, dict):
        findings.problem((name,), f"may stand more than once: write [[{name}]], not [{name}]")
        return ()
    if not isinstance(raw, list):
        findings.problem((name,), f"must be a table, [[{name}]]")
        return ()
    checked = ((_checked(model, each, (name, at), findings), (name, at)) for at, each in enumerate(raw))
    return tuple(Entry(table, path) for table, path in checked if table is not None)


def _checked(model: type[T], raw: Any, path: KeyPath, findings: Findings) -> T | None:
    """The table; when some keys are refused, the table without them, so that the rest is still looked at."""
    if not isinstance(raw, dict):
        findings.problem(path, "must be a table of key = value")
        return None
    try:
        return model.model_validate(raw)
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
    for error in errors:
        findings.problem((*path, *error["loc"]), complain(model, error))
    return mended(model, raw, [error["loc"] for error in errors])


def _names(raw: Any) -> frozenset[str]:
    if not isinstance(raw, list):
        return frozenset()
    names = (each.get("name") for each in raw if isinstance(each, dict))
    return frozenset(name for name in names if isinstance(name, str))
