"""Every table of the file by name: the one list of what a user may write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

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

SINGLE: Mapping[str, type[Table]] = {
    "controller": ControllerTable,
    "prometheus": PrometheusTable,
    "agent": AgentTable,
    "cost": CostTable,
    "bills": BillsTable,
    "budget": BudgetTable,
    "observability": ObservabilityTable,
    "elastic": ElasticTable,
    "pd_separation": PdSeparationTable,
}
"""Tables that stand once: `[controller]`."""

REPEATED: Mapping[str, type[Table]] = {
    "service": ServiceTable,
    "pool": PoolTable,
    "host": HostTable,
    "engine": EngineTable,
    "template": TemplateTable,
    "alert": AlertTable,
    "channel": ChannelTable,
    "bill_host": BillHostTable,
}
"""Tables that stand once for each thing: `[[pool]]`."""


def title(table: str) -> str:
    """How a table's heading is written: `[cost]`, `[[pool]]`, `[[pool.flavour]]`, `[service.slo]`."""
    many = table in REPEATED or table in {"pool.flavour", "pool.schedule"}
    return f"[[{table}]]" if many else f"[{table}]"


def every_table() -> Iterator[tuple[str, type[BaseModel]]]:
    """Each table with its dotted name, inner ones after the table that holds them."""
    for name, table in {**SINGLE, **REPEATED}.items():
        yield name, table
        for key, field in table.model_fields.items():
            inner = inner_table(field.annotation)
            if inner is not None:
                yield f"{name}.{key}", inner


def inner_table(annotation: Any) -> type[BaseModel] | None:
    """The table that a key of this type holds, alone or in an array; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {tuple, Annotated, Union, UnionType}:
        return next((found for each in get_args(annotation) if (found := inner_table(each))), None)
    return None
