"""Which layer answers: the coarsest that is fine enough, or a coarser one where finer history is not kept any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table

from tidegate.model.history import Aggregate, Kind, Layer, Question
from tidegate.store.history_find import Found
from tidegate.store.schema_series import COLD, rollup_1h, rollup_5m

WIDTHS = {Layer.HOUR: timedelta(hours=1), Layer.FIVE_MINUTES: timedelta(minutes=5)}
TABLES: dict[Layer, Table] = {Layer.FIVE_MINUTES: rollup_5m, Layer.HOUR: rollup_1h}
_COARSER = (Layer.RAW, Layer.FIVE_MINUTES, Layer.HOUR)
_WORTH = timedelta(days=1)
"""A coarser layer has to reach back further by this to be taken instead."""
_LOOKED_AT = 8
"""Series and hosts by which it is told how far a layer reaches back."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The layer and the step that an answer is given in."""

    layer: Layer
    step: timedelta
    note: str = ""


def fitting(question: Question, step: timedelta) -> Layer:
    """The layer whose buckets make up the step."""
    if question.aggregate is Aggregate.LAST and question.metric.kind is Kind.GAUGE:
        return Layer.RAW  # rollups of gauges keep no last value
    for layer, width in WIDTHS.items():
        if not step % width:
            return layer
    return Layer.RAW


def choose(connection: Connection, question: Question, step: timedelta, found: Sequence[Found]) -> Choice:
    """The layer for these series (at least one), by the step and by how far back each reaches."""
    first = fitting(question, step)
    if first is Layer.HOUR or (question.aggregate is Aggregate.LAST and question.metric.kind is Kind.GAUGE):
        return Choice(first, step)
    reach = _reach(connection, first, found)
    for layer in _COARSER[_COARSER.index(first) + 1 :]:
        if reach is not None and reach <= question.since + COLD:
            break
        further = _reach(connection, layer, found)
        if further is not None and (reach is None or further + _WORTH < reach):
            since = "nothing" if reach is None else f"only what came after {reach:%Y-%m-%d %H:%M} UTC"
            wider = -(-step // WIDTHS[layer]) * WIDTHS[layer]
            note = f"step widened from {step} to {wider}: of the finer history {since} is kept"
            return Choice(layer, wider, note)
    return Choice(first, step)


def _reach(connection: Connection, layer: Layer, found: Sequence[Found]) -> datetime | None:
    """The start of the oldest row that is kept of some of the series."""
    if layer is Layer.RAW:
        hosts = sorted({one.host for one in found})[:_LOOKED_AT]
        return _oldest(connection, "SELECT min(start) FROM chunk_clock WHERE host = ANY(%s)", hosts)
    blocks = sorted({one.block for one in found})[:_LOOKED_AT]
    return _oldest(connection, f"SELECT min(start) FROM {TABLES[layer].name} WHERE block = ANY(%s)", blocks)  # noqa: S608


def _oldest(connection: Connection, query: str, among: Sequence[object]) -> datetime | None:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        found: datetime | None = cursor.execute(query, [list(among)]).fetchone()[0]
    return found.astimezone(UTC) if found is not None else None
