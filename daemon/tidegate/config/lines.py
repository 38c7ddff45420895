"""Where each key of a TOML text stands: key path -> line, because tomllib keeps no positions.

Reads only what tomllib has already accepted, so it finds its way and checks nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""Keys and array positions (from 0) from the root: ("pool", 1, "flavour", 0, "hosts")."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_BARE = re.compile(r"[^,\]}\n#]*")


class LineMap:
    """Lines of key paths; a path that is not written stands where its nearest written parent does."""

    def __init__(self, lines: Mapping[KeyPath, int]) -> None:
        self._lines = dict(lines)

    def of(self, path: KeyPath) -> int:
        """The line, from 1."""
        for length in range(len(path), 0, -1):
            line = self._lines.get(path[:length])
            if line is not None:
                return line
        return 1

    def paths(self) -> frozenset[KeyPath]:
        """Every path that is written."""
        return frozenset(self._lines)


def toml_lines(text: str) -> LineMap:
    """The lines of every table, key and array element of a valid TOML text."""
    scanner = _Scanner(text)
    scanner.document()
    return LineMap(scanner.lines)


class _Scanner:
    """One walk over the text, by position."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1
        self._lengths: dict[KeyPath, int] = {}
        """How many elements each array of tables has so far."""

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text.startswith("[", self._at):
                table = self._header(1)
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        start = self._at
        return self._text[start : self._skip(pattern)]

    def _mark(self, path: KeyPath) -> None:
        """Note every part of `path` that is new as standing here."""
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self._line)

    def _header(self, brackets: int) -> KeyPath:
        start = self._at
        self._at += brackets
        *parents, last = self._dotted()
        path: KeyPath = ()
        for part in parents:
            path = self._latest((*path, part))
        path = (*path, last)
        if brackets == 2:
            self._lengths[path] = self._lengths.get(path, 0) + 1
            path = self._latest(path)
        self._skip(_SPACE)
        end = self._at + brackets
        self._at = start
        self._mark(path)
        self._at = end
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        """A header speaks of the latest element of an array of tables."""
        length = self._lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _dotted(self) -> list[str]:
        parts = [self._key()]
        while self._text.startswith(".", self._skip(_SPACE)):
            self._at += 1
            parts.append(self._key())
        return parts

    def _key(self) -> str:
        self._skip(_SPACE)
        word = self._take(_KEY)
        if word[:1] in {'"', "'"}:
            return str(tomllib.loads(f"word = {word}")["word"])
        return word

    def _pair(self, table: KeyPath) -> None:
        self._skip(_SPACE)
        start = self._at
        path = (*table, *self._dotted())
        self._at, end = start, self._at
        self._mark(path)
        self._at = end + 1  # the dotted key is followed by "=": _dotted skipped the space before it
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip(_SPACE)
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in {'"', "'"}:
            self._skip(_STRING)
        else:
            self._skip(_BARE)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        while not self._closes("]"):
            self._mark((*path, position))
            self._value((*path, position))
            position += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Step over blanks and commas; true, and past it, at the closing bracket (or at the text's end)."""
        self._skip(_BLANK)
        while self._text.startswith(",", self._at):
            self._at += 1
            self._skip(_BLANK)
        if self._at < len(self._text) and not self._text.startswith(bracket, self._at):
            return False
        self._at += 1
        return True
