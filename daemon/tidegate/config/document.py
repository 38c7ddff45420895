"""Read a configuration file's text into data with a line for every key; refuses what is no TOML (or JSON) at all."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidegate.config.json_lines import json_lines
from tidegate.config.lines import LineMap, toml_lines
from tidegate.config.problem import ConfigProblems, Problem

LARGEST_BYTES = 4 * 1024 * 1024
"""More is no configuration file but a mistake in the path."""

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_AT_END = " (at end of document)"
_HINTS = {
    "Invalid value": 'strings stand in "quotes"; true and false are written small',
    "Expected '=' after a key in a key/value pair": "a line is `key = value`, a table begins with `[name]`",
    "Cannot overwrite a value": "the key stands twice in this table",
    "Expected newline or end of document after a statement": "one `key = value` a line",
}


@dataclass(frozen=True, slots=True)
class Document:
    """A file's data with the place of each key. Fractions are Decimal, so that a price is what was written."""

    path: Path
    data: Mapping[str, Any]
    lines: LineMap


def read_document(path: Path) -> Document:
    """Read and parse a `.toml` file, or a `.json` file of the same shape; raises ConfigProblems."""
    text = _text(path)
    try:
        if path.suffix.lower() == ".json":
            return Document(path, _json(path, text), json_lines(text))
        return Document(path, _toml(path, text), toml_lines(text))
    except RecursionError as error:
        raise _refused(path, 1, "arrays or tables are nested too deep for a configuration") from error


def fraction(text: str) -> Decimal:
    """The exact number that was written; one beyond Decimal's own limits becomes an infinity, which no key allows."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal("Infinity")


def _refused(path: Path, line: int, message: str) -> ConfigProblems:
    return ConfigProblems([Problem(str(path), line, "", message)])


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _refused(path, 1, f"cannot be read: {why}; name a readable TOML file") from error
    if len(body) > LARGEST_BYTES:
        raise _refused(path, 1, f"is larger than {LARGEST_BYTES // 1024**2} MiB: this is no configuration file")
    try:
        return body.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise _refused(path, line, "is not UTF-8 text; save the file as UTF-8") from error


def _toml(path: Path, text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text, parse_float=fraction)
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        raise _refused(path, *_syntax(str(error), text)) from error


def _syntax(said: str, text: str) -> tuple[int, str]:
    place = _AT_LINE.search(said)
    if said.endswith(_AT_END):
        line, what = max(text.rstrip().count("\n") + 1, 1), said.removesuffix(_AT_END) + " at the end of the file"
    elif place:
        line, what = int(place[1]), f"{said[: place.start()]} (column {place[2]})"
    else:
        line, what = 1, said
    hint = next((hint for start, hint in _HINTS.items() if said.startswith(start)), "see toml.io for the syntax")
    return line, f"is not TOML: {what}; {hint}"


def _json(path: Path, text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text, parse_float=fraction, parse_constant=fraction)
    except json.JSONDecodeError as error:
        raise _refused(path, error.lineno, f"is not JSON: {error.msg} (column {error.colno})") from error
    except ValueError as error:
        raise _refused(path, 1, f"is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise _refused(path, 1, "must be a JSON object of tables; a TOML file is the usual form")
    return data
