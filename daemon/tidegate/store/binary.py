"""Rows in Postgres' binary format, in and out: what carries samples, where text would cost ten times as much.

Formats: PostgreSQL manual, COPY (binary format), and the send and receive functions of the types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection

_OPENING = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PIECE = 64
"""Rows of a COPY that go together."""
NULL = b"\xff\xff\xff\xff"

_INT16, _INT32, _INT64 = struct.Struct(">ih"), struct.Struct(">ii"), struct.Struct(">iq")
_REAL = struct.Struct(">if")
_ARRAY = struct.Struct(">iiiIii")
_ELEMENTS: Mapping[str, tuple[int, np.dtype[Any]]] = {
    kind: (oid, np.dtype([("length", ">i4"), ("value", f">{kind}")]))
    for kind, oid in (("i2", 21), ("i4", 23), ("f4", 700), ("f8", 701))
}


def text(value: str) -> bytes:
    """A field of type text."""
    data = value.encode()
    return len(data).to_bytes(4, "big") + data


def blob(value: bytes) -> bytes:
    """A field of type bytea."""
    return len(value).to_bytes(4, "big") + value


def flag(value: bool) -> bytes:  # noqa: FBT001 - one of the types
    """A field of type boolean."""
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def small(value: int) -> bytes:
    """A field of type smallint."""
    return _INT16.pack(2, value)


def integer(value: int) -> bytes:
    """A field of type integer."""
    return _INT32.pack(4, value)


def big(value: int) -> bytes:
    """A field of type bigint."""
    return _INT64.pack(8, value)


def real(value: float | None) -> bytes:
    """A field of type real; NULL for None, and for what is larger than the type holds."""
    try:
        return NULL if value is None else _REAL.pack(4, value)
    except OverflowError:
        return NULL


def moment(value: datetime) -> bytes:
    """A field of type timestamptz."""
    return _INT64.pack(8, (value - _EPOCH) // _MICROSECOND)


def array(values: NDArray[Any], kind: str) -> bytes:
    """A field of an array type by its elements: i2, i4, f4 or f8; what has several dimensions is laid out flat."""
    oid, layout = _ELEMENTS[kind]
    elements = np.empty(values.size, layout)
    elements["length"] = layout["value"].itemsize
    elements["value"] = values.reshape(-1)
    body = elements.tobytes()
    return _ARRAY.pack(20 + len(body), 1, 0, oid, values.size, 1) + body


def text_array(values: Sequence[str]) -> str:
    """An array of texts as a literal: the driver's own way looks at every element with several patterns."""
    together = "".join(values)
    if '"' in together or "\\" in together:
        values = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(values) + '"}' if values else "{}"


def number_array(values: Iterable[int]) -> str:
    """An array of whole numbers as a literal."""
    return f"{{{','.join(map(str, values))}}}"


def elements(sent: bytes, kind: str) -> NDArray[Any]:
    """The values of an array that the server sent in binary, or through `array_send`; it has no NULL in it."""
    return np.frombuffer(sent, _ELEMENTS[kind][1], offset=20)["value"]


def copy_in(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Sequence[bytes],
    between: Callable[[], object] = lambda: None,
) -> None:
    """Write rows, each the fields of `columns` joined, within the connection's transaction.

    `between` is called between two pieces of many rows.
    """
    if not rows:
        return
    count = len(columns).to_bytes(2, "big")
    names = ", ".join(f'"{name}"' for name in columns)
    with cursor(connection) as bare, bare.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(_OPENING)
        for first in range(0, len(rows), _PIECE):
            if first:
                between()
            copy.write(count + count.join(rows[first : first + _PIECE]))
        copy.write(_END)


def cursor(connection: Connection) -> psycopg.Cursor[tuple[Any, ...]]:
    """A cursor of the driver that takes values in binary, within the connection's transaction."""
    return _driver(connection).cursor(binary=True)


def last_of(connection: Connection, statements: Sequence[str], values: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Several statements in one message, within the connection's transaction; answers the last rows."""
    return rows_of(_driver(connection), "; ".join(statements), values)


def rows_of(driver: psycopg.Connection[Any], message: str, values: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Send several statements in one message; answers the rows of the last one that has any to give."""
    with psycopg.ClientCursor(driver) as bare:
        bare.execute(message, values)
        rows: list[tuple[Any, ...]] = []
        more: bool | None = True
        while more:
            rows = bare.fetchall() if bare.description else rows
            more = bare.nextset()
        return rows


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise TypeError("this needs a connection of psycopg 3")
    return driver


def microseconds(value: datetime) -> int:
    """Since 1970."""
    return (value - _UNIX) // _MICROSECOND


def at(microseconds_: int) -> datetime:
    """The moment so many microseconds after 1970."""
    return _UNIX + timedelta(microseconds=int(microseconds_))
