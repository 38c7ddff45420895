"""Many rows of one table in few statements: hundreds sent one by one keep a core of the database busy in one go.

Whoever has his share of a core waits there for the timer's next tick, and reports are acknowledged by such a core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from json import dumps
from typing import Any

from sqlalchemy import Connection, DateTime, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeEngine

from tidegate.store.binary import cursor, text_array

_AT_ONCE = 32
"""Rows in one statement: about a millisecond of the server's."""


class Together:
    """Adds rows of a table that have a value for each of `columns`, in place of those that are there or not at all."""

    def __init__(self, table: Table, columns: Sequence[str], *, replace: bool) -> None:
        """`replace`: a row of the same primary key is given these values; else one that breaks any key is left out."""
        kinds = [table.c[name].type for name in columns]
        self._said = list(zip(columns, map(_how, kinds), strict=True))
        names = ", ".join(columns)
        arrays = ", ".join(["%s::text[]"] * len(columns))
        words = postgresql.dialect()  # type: ignore[no-untyped-call]
        casts = [f"n.{name}::{kind.compile(words)}" for name, kind in zip(columns, kinds, strict=True)]
        conflict = "DO NOTHING"
        if replace:
            keys = [column.name for column in table.primary_key]
            changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
            conflict = f"({', '.join(keys)}) DO UPDATE SET {changes}"
        self._statement = (
            f"INSERT INTO {table.name} ({names}) SELECT {', '.join(casts)} "  # noqa: S608 - names of the schema
            f"FROM unnest({arrays}) AS n ({names}) ON CONFLICT {conflict}"
        )

    def write(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows, no two of one key."""
        with cursor(connection) as bare:
            for first in range(0, len(rows), _AT_ONCE):
                some = rows[first : first + _AT_ONCE]
                bare.execute(self._statement, [_array([row[name] for row in some], said) for name, said in self._said])


def _array(values: Sequence[Any], said: Callable[[Any], str]) -> str:
    """Values of a column as an array of texts, which the server reads as what they are."""
    told = [None if value is None else said(value) for value in values]
    if None not in told:
        return text_array([text for text in told if text is not None])
    quoted = ["NULL" if text is None else text_array([text])[1:-1] for text in told]
    return "{" + ",".join(quoted) + "}"


def _how(kind: TypeEngine[Any]) -> Callable[[Any], str]:
    """How a value of this type is told as text."""
    if isinstance(kind, JSONB):
        return dumps
    if isinstance(kind, ARRAY):
        return text_array
    if isinstance(kind, DateTime):
        return datetime.isoformat
    return str
