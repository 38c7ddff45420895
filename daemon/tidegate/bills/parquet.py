"""Parquet through pyarrow (the extra `parquet`): columns as the text that a CSV would hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from tidegate.runtime.errors import Permanent

if TYPE_CHECKING:
    from tidegate.bills.records import Records

_BATCH = 4096


def parquet_rows(source: IO[bytes], name: str) -> Records:
    """The rows; decimals are exact, doubles become the shortest text that means them, which is noted."""
    from tidegate.bills.records import Records

    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise Permanent(f"{name}: Parquet needs pyarrow: pip install 'tidegate[parquet]'") from error
    try:
        file = parquet.ParquetFile(_seekable(source, pa), pre_buffer=False)
        schema = file.schema_arrow
    except pa.ArrowException as error:
        raise Permanent(f"{name}: cannot be read as Parquet ({str(error)[:200]})") from error
    records = Records(iter(()), encoding="parquet")
    doubles = [field.name for field in schema if pa.types.is_floating(field.type) and "cost" in field.name.lower()]
    if doubles:
        records.notes[f"amounts are binary doubles ({', '.join(doubles[:4])}): read as the shortest decimal"] = 1
    records.rows = _rows(file, name, pa)
    return records


def _seekable(source: IO[bytes], pa: Any) -> Any:
    """A Parquet file is read from its end: a packed one is unpacked in memory."""
    try:
        source.seek(0, 2)
        source.seek(0)
    except (OSError, AttributeError):
        return pa.BufferReader(source.read())
    return source


def _rows(file: Any, name: str, pa: Any) -> Iterator[list[str]]:
    header: list[str] | None = None
    try:
        for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
            table = pa.Table.from_batches([batch])
            while any(pa.types.is_struct(field.type) for field in table.schema):
                table = table.flatten()  # struct by struct
            if header is None:
                header = list(table.schema.names)
                yield header
            yield from map(list, zip(*(_texts(column, pa) for column in table.columns), strict=True))
    except (pa.ArrowException, OSError) as error:
        raise Permanent(f"{name}: damaged Parquet ({str(error)[:200]})") from error
    if header is None:
        yield list(file.schema_arrow.names)


def _texts(column: Any, pa: Any) -> list[str]:
    """A column's cells. A single-precision number is written by Arrow itself: as a Python float it grows digits."""
    if pa.types.is_floating(column.type) and not pa.types.is_float64(column.type):
        column = column.cast(pa.float32()).cast(pa.string())
    return [_text(value) for value in column.to_pylist()]


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "",
    str: str,
    bytes: lambda value: value.decode("utf-8", "replace"),  # older writers do not say that their bytes are text
    bool: lambda value: "true" if value else "false",
    float: repr,
    Decimal: lambda value: format(value, "f"),
    dict: lambda value: json.dumps(value, ensure_ascii=False, default=str),
}


def _text(value: Any) -> str:
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, list):  # a map comes as pairs
        pairs = bool(value) and all(isinstance(each, tuple) and len(each) == 2 for each in value)
        return json.dumps(dict(value) if pairs else value, ensure_ascii=False, default=str)
    return str(value)
