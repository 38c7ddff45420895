"""Collects what is wrong and what is worth knowing while a file is read, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.config.document import Document
from tidegate.config.lines import KeyPath
from tidegate.config.problem import Problem


class Findings:
    """The problems and notes of one file, in the order found."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []
        self._doubted: list[KeyPath] = []
        self._notes: list[Problem] = []

    def problem(self, path: KeyPath, message: str, also: Iterable[KeyPath] = ()) -> None:
        """Report a problem at `path`.

        Left out when `path` or one of `also` (what the complaint rests on) is itself already complained of: a
        value that was refused says nothing about its relation to others.
        """
        if any(self.doubted(each) for each in (path, *also)):
            return
        self._problems.append(self._at(path, message))
        self._doubted.append(path)

    def adopt(self, problems: Iterable[Problem]) -> None:
        """Report what was found wrong in another file that this one names, each at its own place."""
        self._problems.extend(problems)

    def doubted(self, path: KeyPath) -> bool:
        """Whether something at, above or below this path was already refused."""
        return any(path[: len(bad)] == bad or bad[: len(path)] == path for bad in self._doubted)

    def note(self, path: KeyPath, message: str) -> None:
        """Say what was read but is not ours, what was assumed, or what looks unwise."""
        note = self._at(path, message)
        if note not in self._notes:
            self._notes.append(note)

    def line(self, path: KeyPath) -> int:
        """Where a path stands."""
        return self._document.lines.of(path)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that must be mended."""
        return tuple(self._problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes as `file:line: key: text`, by line."""
        return tuple(map(str, sorted(self._notes)))

    def _at(self, path: KeyPath, message: str) -> Problem:
        return Problem(str(self._document.path), self.line(path), key_text(path, self._document.data), message)


def key_text(path: KeyPath, data: Mapping[str, Any]) -> str:
    """A path as people read it: `pool[burst].max`, with the element's name where it has one, else `pool[#2].max`."""
    text = ""
    at: Any = data
    for part in path:
        at = _step(at, part)
        if isinstance(part, str):
            text += f".{part}" if text else part
        else:
            name = at.get("name") if isinstance(at, dict) else None
            text += f"[{name}]" if isinstance(name, str) and name else f"[#{part + 1}]"
    return text


def _step(at: Any, part: str | int) -> Any:
    if isinstance(part, str):
        return at.get(part) if isinstance(at, dict) else None
    return at[part] if isinstance(at, list) and part < len(at) else None
