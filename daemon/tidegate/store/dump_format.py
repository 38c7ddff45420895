"""A dump as a file: a line that says what it is, then one zstandard stream of blocks, each with its length before it.

    tidegate dump 1\\n
    block: the manifest, as JSON                  what is in it, and which revision the tables have
    for each table: blocks of Postgres' binary COPY, an empty block, a block {"table": ..., "rows": ...}
    block: {"end": number of tables}              without it the dump was cut short

The stream carries zstandard's own checksum. Binary COPY is the same for every Postgres that we support: the columns
are of plain types, whose external form has not changed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from tidegate.runtime.errors import Permanent

MAGIC = b"tidegate dump 1\n"
_LEVEL = 3
_LENGTH = struct.Struct(">I")
_MOST = 1 << 30
"""Bytes of a block: one that says more is damaged."""


@dataclass(frozen=True, slots=True)
class DumpedTable:
    """A table of a dump; a part of one that is split says of which and what it covers."""

    name: str
    columns: tuple[str, ...]
    parent: str = ""
    bound: str = ""
    """`FOR VALUES FROM (...) TO (...)`, as Postgres spells it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dump holds."""

    version: str
    """Of the Tidegate that wrote it."""
    revision: str
    """Of its tables."""
    server_version: str
    at: str
    """When its snapshot was taken, ISO 8601."""
    size_bytes: int
    """Of the tables on disk, for a progress bar: about what is to come."""
    tables: tuple[DumpedTable, ...]


class DumpWriter:
    """Writes blocks."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def manifest(self, manifest: Manifest) -> None:
        """The first block."""
        self._say(asdict(manifest))

    def data(self, block: bytes | memoryview) -> None:
        """A piece of the table that is being written."""
        if len(block):
            self._block(block)

    def table_ends(self, name: str, rows: int) -> None:
        """The table is whole."""
        self._block(b"")
        self._say({"table": name, "rows": rows})

    def end(self, tables: int) -> None:
        """The last block."""
        self._say({"end": tables})

    def _say(self, words: Mapping[str, Any]) -> None:
        self._block(json.dumps(words).encode())

    def _block(self, content: bytes | memoryview) -> None:
        self._stream.write(_LENGTH.pack(len(content)))
        self._stream.write(content)


class DumpReader:
    """Reads what DumpWriter wrote; raises Permanent where the file is damaged or ends too soon."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path

    def manifest(self) -> Manifest:
        """The first block."""
        words = self._words()
        try:
            tables = tuple(DumpedTable(**{**one, "columns": tuple(one["columns"])}) for one in words.pop("tables"))
            return Manifest(**words, tables=tables)
        except (KeyError, TypeError) as error:
            raise self._damaged("its first block is no manifest") from error

    def data(self) -> Iterator[bytes]:
        """The pieces of the table that comes next."""
        while block := self._block():
            yield block

    def table_ends(self, name: str) -> int:
        """How many rows the table has that was just read."""
        words = self._words()
        if words.get("table") != name:
            raise self._damaged(f"after table {name} comes {words}")
        return int(words["rows"])

    def end(self, tables: int) -> None:
        """Make sure that nothing is missing."""
        if self._words() != {"end": tables}:
            raise self._damaged("its last block is missing")

    def _words(self) -> dict[str, Any]:
        try:
            words = json.loads(self._block())
        except ValueError as error:
            raise self._damaged("a block is not JSON") from error
        if not isinstance(words, dict):
            raise self._damaged("a block is no object")
        return words

    def _block(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > _MOST:
            raise self._damaged(f"a block claims {length} bytes")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        """As many bytes; a read may bring fewer at a time."""
        parts = []
        while count:
            try:
                part = self._stream.read(count)
            except zstandard.ZstdError as error:
                raise self._damaged(str(error)) from error
            if not part:
                raise self._damaged("it ends too soon")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _damaged(self, why: str) -> Permanent:
        return Permanent(f"{self._path} is damaged: {why}; take another dump")


@contextmanager
def writing(path: Path) -> Iterator[DumpWriter]:
    """Write a dump; under its name only when it is whole, and readable by its owner alone: it holds token hashes."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            partial.chmod(0o600)
            file.write(MAGIC)
            compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            with compressor.stream_writer(file, closefd=False) as stream:
                yield DumpWriter(stream)
        partial.replace(path)
    except OSError as error:
        raise Permanent(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[DumpReader]:
    """Read a dump; raises Permanent when the file is none."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Permanent(f"{path} is no dump of this version of Tidegate: `tidegate db dump` makes one")
            with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as stream:
                yield DumpReader(stream, path)
    except OSError as error:
        raise Permanent(f"{path} cannot be read: {error.strerror or error}") from error
