"""Which series a question is about: found by name and labels, each with where its samples lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, select, true

from tidegate.model.history import Kind, Label, LimitError, Limits, Metric, Question, Scope
from tidegate.model.series import SeriesKey
from tidegate.store.schema import engine, host, replica
from tidegate.store.schema_series import COLD, series

_MOST = 200_000
"""Series that are looked at for one question, whatever they are grouped into."""
_POOL = func.coalesce(engine.c.pool, replica.c.pool).label("pool")
_SERVICE = func.coalesce(engine.c.service, replica.c.service).label("service")
"""By the inventory, which forgets engines that are gone for long; by the replicas' log, which does not."""


@dataclass(frozen=True, slots=True)
class Found:
    """One series."""

    id: int
    block: int
    host: str
    key: SeriesKey
    labels: Mapping[Label, str]


def find(connection: Connection, question: Question, limits: Limits) -> list[Found]:
    """The series that were seen in the time of the question, by labels; raises LimitError beyond the limits."""
    most = _MOST if question.by is not None or question.metric.kind is Kind.DISTRIBUTION else limits.series
    rows = connection.execute(_query(question).limit(most + 1)).all()
    if len(rows) > most:
        raise LimitError(f"more than {most} series of {question.metric} match, and an answer has {most} at most")
    owners = _gpu_owners(connection) if question.metric.scope is Scope.GPU else {}
    found = [_found(row, question.metric, owners) for row in rows]
    return sorted((one for one in found if _fits(one, question)), key=_order)


def values_of(connection: Connection, question: Question, label: Label) -> Sequence[str]:
    """The values of a label among the series of the question, sorted."""
    owners = _gpu_owners(connection) if question.metric.scope is Scope.GPU else {}
    rows = connection.execute(_query(question).limit(_MOST))
    found = (_found(row, question.metric, owners) for row in rows)
    return sorted({one.labels[label] for one in found if label in one.labels})


def _query(question: Question) -> Select[tuple[int, int, str, str, str, str, str | None, str | None]]:
    metric = question.metric
    name = f"{metric.name}_bucket" if metric.kind is Kind.DISTRIBUTION else metric.name
    owned = and_(engine.c.host == series.c.host, engine.c.name == series.c.owner, series.c.scope == Scope.ENGINE)
    run = and_(replica.c.host == series.c.host, replica.c.id == series.c.owner, series.c.scope == Scope.ENGINE)
    query = select(
        series.c.id,
        series.c.block,
        series.c.host,
        series.c.owner,
        series.c.rank,
        series.c.le,
        _POOL,
        _SERVICE,
    ).select_from(series.outerjoin(engine, owned).outerjoin(replica, run))
    return query.where(
        series.c.name == name,
        series.c.scope == metric.scope,
        series.c.first_seen < question.until,
        series.c.last_seen > question.since - COLD,  # as coarse as a window
        *_conditions(question),
    )


def _conditions(question: Question) -> list[ColumnElement[bool]]:
    scope = question.metric.scope
    columns: dict[Label, ColumnElement[Any]] = {
        Label.HOST: series.c.host,
        Label.RANK: series.c.rank,
        Label.LE: series.c.le,
    }
    if scope is Scope.ENGINE:
        columns |= {Label.ENGINE: series.c.owner, Label.POOL: _POOL, Label.SERVICE: _SERVICE}
    elif scope is Scope.GPU:
        columns |= {Label.GPU: series.c.owner}
    return [columns[label].in_(sorted(values)) for label, values in question.where.items() if label in columns]


def _found(
    row: Row[tuple[int, int, str, str, str, str, str | None, str | None]], metric: Metric, owners: _Owners
) -> Found:
    name = f"{metric.name}_bucket" if metric.kind is Kind.DISTRIBUTION else metric.name
    labels = {Label.HOST: row.host, Label.RANK: row.rank, Label.LE: row.le}
    if metric.scope is Scope.ENGINE:
        labels |= {Label.ENGINE: row.owner, Label.POOL: row.pool or "", Label.SERVICE: row.service or ""}
    elif metric.scope is Scope.GPU:
        labels |= {Label.GPU: row.owner, **owners.get((row.host, row.owner), {})}
    key = SeriesKey(metric.scope.value, row.owner, name, row.rank, row.le)
    ordered = {label: labels[label] for label in Label if labels.get(label)}
    return Found(row.id, row.block, row.host, key, ordered)


_Owners = Mapping[tuple[str, str], Mapping[Label, str]]


def _gpu_owners(connection: Connection) -> _Owners:
    """Whose each GPU is, by what the hosts said last: (host, uuid) -> pool, service and engine."""
    gpu = func.jsonb_array_elements(host.c.state["gpus"]).table_valued("value").render_derived(name="gpu")
    held = func.jsonb_array_elements(host.c.state["engines"]).table_valued("value").render_derived(name="held")
    query = (
        select(
            host.c.name,
            gpu.c.value.op("->>")("uuid").label("uuid"),
            held.c.value.op("->>")("pool").label("pool"),
            held.c.value.op("->>")("service").label("service"),
            held.c.value.op("->>")("name").label("engine"),
        )
        .select_from(host)
        .join(gpu, true())
        .join(held, held.c.value.op("->")("gpu_indices").op("@>")(gpu.c.value.op("->")("index")))
        .where(host.c.state.is_not(None))
    )
    return {
        (row.name, row.uuid): {Label.POOL: row.pool, Label.SERVICE: row.service, Label.ENGINE: row.engine}
        for row in connection.execute(query)
    }


def _fits(found: Found, question: Question) -> bool:
    """What the query could not choose by: a GPU's pool, and labels that the metric's series do not have."""
    return all(found.labels.get(label, "") in values for label, values in question.where.items())


def _order(found: Found) -> tuple[str, ...]:
    return tuple(found.labels.get(label, "") for label in Label)
