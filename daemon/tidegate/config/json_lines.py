"""Where each key of a JSON text stands: key path -> line, for the settings files that some teams copy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.config.lines import KeyPath, LineMap

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class _Open:
    """A container that is being read: the last key of an object, or the position in an array."""

    is_object: bool
    last: str | int
    expects_key: bool


def json_lines(text: str) -> LineMap:
    """The lines of every key and array element of a valid JSON text."""
    lines: dict[KeyPath, int] = {}
    stack: list[_Open] = []
    for word, line in _tokens(text):
        if word in {"}", "]"}:
            stack.pop()
        elif word == ",":
            _next(stack[-1])
        elif word != ":":
            _place(stack, word, line, lines)
    return LineMap(lines)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, counted_to = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        yield match.group(), line


def _next(container: _Open) -> None:
    if container.is_object:
        container.expects_key = True
    elif isinstance(container.last, int):
        container.last += 1


def _place(stack: list[_Open], word: str, line: int, lines: dict[KeyPath, int]) -> None:
    """A key, or the beginning of a value."""
    if stack and stack[-1].expects_key:
        stack[-1].last, stack[-1].expects_key = str(json.loads(word)), False
        lines[tuple(container.last for container in stack)] = line
        return
    if stack:
        lines.setdefault(tuple(container.last for container in stack), line)
    if word == "{":
        stack.append(_Open(is_object=True, last="", expects_key=True))
    elif word == "[":
        stack.append(_Open(is_object=False, last=0, expects_key=False))
