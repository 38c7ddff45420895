"""The rows of one file as lists of text: CSV in its dialects and encodings, JSON, JSON lines, Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import IO, Any

from tidegate.runtime.errors import Permanent

_HEAD = 1 << 18
_LONGEST_FIELD = 1 << 20
_LONGEST_LINE = 1 << 24
_LONGEST_DOCUMENT = 256 * 1024 * 1024
_KEYS_FROM = 1000
_DELIMITERS = ",;\t|"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]")
_NO_TABLES = (
    (b"%PDF", "a PDF; import the provider's export as CSV or Parquet"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook; save the sheet as CSV (UTF-8)"),
    (b"\x1f\x8b", "packed with gzip twice; unpack it once"),
    (b"\x28\xb5\x2f\xfd", "packed with zstandard; unpack it first"),
    (b"BZh", "packed with bzip2; unpack it first"),
    (b"\xfd7zXZ", "packed with xz; unpack it first"),
    (b"7z\xbc\xaf", "a 7-Zip archive; unpack it first"),
    (b"<", "a page or an XML answer instead of a table; the download may have failed"),
)
"""How files begin that are no table, and what to do."""
_replaced = threading.local()


@dataclass(slots=True)
class Records:
    """The rows, the first of them (or one of the next) being the header, and how they were written."""

    rows: Iterator[list[str]]
    delimiter: str = ","
    encoding: str = "utf-8"
    notes: dict[str, int] = field(default_factory=dict)
    text: io.TextIOWrapper | None = None
    growing: bool = False
    """Whether rows may have keys that the header lacks, as `key=value` cells behind the others."""

    def close(self) -> None:
        """Close the file."""
        if self.text is not None:
            self.text.close()

    def finish(self) -> None:
        """Take what was noticed while reading."""
        count = getattr(_replaced, "count", 0)
        if count:
            self.notes[f"bytes that are not {self.encoding}; each is shown as \ufffd"] = count


def records_of(source: IO[bytes], name: str) -> Records:
    """Read a file by what it is, not by its name; raises Permanent on what no bill is."""
    _replaced.count = 0
    head = _peek(source, name)
    if head.startswith(b"PAR1"):
        from tidegate.bills.parquet import parquet_rows  # the extra is asked for only by whom it concerns

        return parquet_rows(source, name)
    if head[257:262] == b"ustar":
        raise Permanent(f"{name}: a tar archive; unpack it first")
    for mark, what in _NO_TABLES:
        if head.startswith(mark):
            raise Permanent(f"{name}: {what}")
    encoding = encoding_of(head)
    text = io.TextIOWrapper(source, encoding=encoding, errors="tidegate-count", newline="")
    start = _start(head, encoding)
    if start in ("{", "["):
        return Records(_json_rows(text, name, document=start == "["), encoding=encoding, text=text, growing=True)
    return _csv_rows(text, encoding, head.decode(encoding, "replace"), name)


def _peek(source: IO[bytes], name: str) -> bytes:
    peek = getattr(source, "peek", None)
    head: bytes = peek(_HEAD)[:_HEAD] if peek else b""
    if not head:
        raise Permanent(f"{name}: the file is empty")
    return head


def encoding_of(head: bytes) -> str:
    """UTF-8 unless a mark or the bytes say UTF-16, or they can only be Chinese (GB 18030) or Western (cp1252)."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    sample = head[: _HEAD // 2 * 2]
    if sample[1::2].count(0) > len(sample) // 4:
        return "utf-16-le"
    if sample[::2].count(0) > len(sample) // 4:
        return "utf-16-be"
    for encoding in ("utf-8", "gb18030"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(head)  # the last character may be cut
        except UnicodeDecodeError:
            continue
        return "cp1252" if encoding == "gb18030" and _western(head) else encoding
    return "cp1252"


def _western(head: bytes) -> bool:
    """Whether most marks beyond ASCII stand before an ASCII letter: none in Chinese (GB 2312), most in German."""
    pairs: list[bytes] = _PAIR.findall(head)
    return 2 * sum(pair[1] < 0x80 for pair in pairs) > len(pairs)


def _count(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    _replaced.count = getattr(_replaced, "count", 0) + error.end - error.start
    return "\ufffd", error.end


codecs.register_error("tidegate-count", _count)


def _start(head: bytes, encoding: str) -> str:
    return head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")[:1]


def _csv_rows(text: io.TextIOWrapper, encoding: str, head: str, name: str) -> Records:
    delimiter = delimiter_of(head)
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(_lines(text, name, _LONGEST_LINE), delimiter=delimiter)

    def rows() -> Iterator[list[str]]:
        try:
            for cells in reader:
                if cells:
                    yield cells
        except csv.Error as error:
            raise Permanent(
                f"{name}, line {reader.line_num}: {error}; a quote that is never closed, or no table of text"
            ) from error

    return Records(rows(), delimiter, encoding, text=text)


def _lines(text: io.TextIOWrapper, name: str, longest: int) -> Iterator[str]:
    """The lines; a few bytes of a packed file may unpack to one that no memory holds."""
    while line := text.readline(longest):
        if len(line) >= longest:
            raise Permanent(f"{name}: a line of more than {longest >> 20} Mi characters; it is no table of text")
        yield line


def delimiter_of(head: str) -> str:
    """The mark that parts the first lines most, outside of quotes; Excel's `sep=;` line says it."""
    lines = [line for line in head.splitlines()[:20] if line.strip()]
    if lines and lines[0].lower().startswith("sep=") and len(lines[0].strip()) == 5:
        return lines[0].strip()[4]
    counts = {mark: max((_outside(line, mark) for line in lines), default=0) for mark in _DELIMITERS}
    return max(_DELIMITERS, key=lambda mark: counts[mark])


def _outside(line: str, mark: str) -> int:
    return sum(piece.count(mark) for piece in line.split('"')[::2])


def _json_rows(text: io.TextIOWrapper, name: str, *, document: bool) -> Iterator[list[str]]:
    """Objects as rows under one header: the keys of the first thousand."""
    records = _objects(text, name, document=document)
    first = list(islice(records, _KEYS_FROM))
    header = list(dict.fromkeys(key for record in first for key in record))
    yield header
    known = set(header)
    for record in chain(first, records):
        cells = [record.get(key, "") for key in header]
        if len(record) > sum(key in known for key in record):
            cells += [f"{key}={value}" for key, value in record.items() if key not in known]
        yield cells


def _objects(text: io.TextIOWrapper, name: str, *, document: bool) -> Iterator[Mapping[str, str]]:
    if document:
        yield from map(flat, _listed(_whole(text, "", name), name))
        return
    for number, line in enumerate(_lines(text, name, _LONGEST_DOCUMENT), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            if number == 1:  # not one object a line, but one object over many
                yield from map(flat, _listed(_whole(text, line, name), name))
                return
            yield {"": line[:_LONGEST_FIELD]}
            continue
        if number == 1 and not _is_record(found):
            yield from map(flat, _listed(found, name))
        else:
            yield flat(found)


def _is_record(found: Any) -> bool:
    return isinstance(found, dict) and _kept(found) is None


_LISTS = (
    "data", "records", "items", "rows", "results", "Data", "Items", "Item", "List", "DetailSet", "pods", "billing",
    "usage", "value", "fee_records", "monthly_records",
)  # fmt: skip
"""Keys under which an answer of an API keeps its rows."""
_WRAPPERS = ("Result", "Response", "Data", "Items", "data", "result", "response")
"""Keys around those."""


def _kept(found: Mapping[str, Any]) -> list[Any] | None:
    """The rows in an answer of an API; None where it holds no list of them."""
    for key in _LISTS:
        if _is_list_of_objects(found.get(key)):
            return list(found[key])
    inner = (found[key] for key in _WRAPPERS if isinstance(found.get(key), dict))
    return next((rows for each in inner if (rows := _kept(each)) is not None), None)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _whole(text: io.TextIOWrapper, begun: str, name: str) -> Any:
    rest = text.read(_LONGEST_DOCUMENT)
    if len(rest) >= _LONGEST_DOCUMENT:
        raise Permanent(f"{name}: one JSON document of more than 256 MiB; export JSON lines instead")
    try:
        return json.loads(begun + rest, parse_float=str, parse_int=str)
    except (ValueError, RecursionError) as error:
        raise Permanent(f"{name}: cannot be read as JSON ({error}); the file may be cut short") from error


def _listed(found: Any, name: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(found, dict):
        inner = _kept(found)
        found = inner if inner is not None else [found]
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Permanent(f"{name}: the JSON holds no list of objects")
    return found


def flat(record: Any) -> Mapping[str, str]:
    """An object's values as text: inner objects by `outer.inner`, lists as JSON; numbers as they were written."""
    if not isinstance(record, dict):
        return {"": str(record)[:1000]}
    found: dict[str, str] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": text for inner, text in flat(value).items()}
            found.setdefault(key, json.dumps(value, ensure_ascii=False))
        else:
            found[key] = text_of_value(value)
    return found


def text_of_value(value: Any) -> str:
    """A JSON value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sample_cells(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Every cell of some rows."""
    return chain.from_iterable(rows)
