"""Exported rows as a Parquet file (the extra `parquet`), a row group at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate.model.history import Label
from tidegate.runtime.errors import Permanent
from tidegate.store.export import Rows

_AT_ONCE = 250_000
"""Rows of a row group."""


def write_parquet(path: Path, pieces: Iterable[Rows]) -> int:
    """Write the rows; returns how many. Raises Permanent without pyarrow, or when the file cannot be written."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise Permanent("Parquet needs pyarrow: pip install 'tidegate[parquet]'; or choose --format csv") from error
    word = pa.dictionary(pa.int32(), pa.string())
    fields = [("at", pa.timestamp("us", tz="UTC")), ("metric", word), *((label.value, word) for label in Label)]
    schema = pa.schema([*fields, ("value", pa.float64())])
    total, waiting, held = 0, [], 0
    try:
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for rows in pieces:
                columns = [rows.at, rows.metric, *(rows.labels[label] for label in Label), rows.value]
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                waiting.append(pa.Table.from_arrays(arrays, schema=schema))
                held += len(rows.at)
                if held >= _AT_ONCE:
                    total, waiting, held = total + _flush(writer, waiting, pa), [], 0
            total += _flush(writer, waiting, pa)
    except OSError as error:
        raise Permanent(f"{path} cannot be written: {error}") from error
    return total


def _flush(writer: object, waiting: list[object], pa: object) -> int:
    if not waiting:
        return 0
    table = pa.concat_tables(waiting).unify_dictionaries()  # type: ignore[attr-defined]
    writer.write_table(table)  # type: ignore[attr-defined]
    return int(table.num_rows)
