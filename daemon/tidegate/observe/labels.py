"""Read the label part of a sample line, once for each different text of it; and the reasons for not reading one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

Labels = Mapping[str, str]
_By = TypeVar("_By")
_Derived = TypeVar("_Derived")
_QUESTIONS = 8


class Skip(StrEnum):
    """Why a line was not read."""

    NO_NAME = "no metric name"
    NO_VALUE = "no value"
    BAD_VALUE = "the value is not a number"
    BAD_LABELS = "labels out of form"
    TOO_MANY_LABELS = "too many labels"
    LABEL_TOO_LONG = "a label too long"
    DUPLICATE = "a series twice"
    TOO_MANY_SERIES = "too many series"
    AFTER_END = "lines after # EOF"
    NOT_UTF8 = "not UTF-8"


_NAME = r'(?:[a-zA-Z_][a-zA-Z0-9_.:]*|"(?:[^"\\]|\\.)*+")'
_PAIR = rf'({_NAME})[ \t]*=[ \t]*"((?:[^"\\]|\\.)*+)"'
_QUOTED_METRIC = r'(?:"[^"\\]+"[ \t]*(?:,[ \t]*|(?=\})))?'
# Possessive and atomic: a hostile line costs one pass, not a search.
_BLOCK = re.compile(rf"\{{[ \t]*{_QUOTED_METRIC}((?>{_PAIR}[ \t]*(?:,[ \t]*|(?=\}})))*+)\}}")
_PAIRS = re.compile(_PAIR)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
_EMPTY: Labels = {}


class LabelsError(ValueError):
    """The labels of a line are not to be read."""

    def __init__(self, why: Skip) -> None:
        super().__init__(why.value)
        self.why = why


class LabelSets:
    """The label sets of one name's samples, in the order of a body; one object as long as bodies agree on them."""

    __slots__ = ("_derived", "sets")

    def __init__(self, sets: tuple[Labels, ...]) -> None:
        self.sets = sets
        self._derived: dict[tuple[object, object], Any] = {}

    def derive(self, work_out: Callable[[Sequence[Labels], _By], _Derived], by: _By) -> _Derived:
        """What a pure function says of the sets, worked out once: which rank, which bound, which place."""
        question = work_out, by
        if question not in self._derived:
            if len(self._derived) >= _QUESTIONS:  # they are made anew for each body
                self._derived.clear()
            self._derived[question] = work_out(self.sets, by)
        found: _Derived = self._derived[question]
        return found


class LabelReader:
    """Equal label sets come back as one and the same object, however they are spelt or ordered."""

    def __init__(self, most_labels: int, longest: int) -> None:
        self._most = most_labels
        self._longest = longest
        self.known: dict[str, Labels] = {}
        """By what stands behind the opening brace, with the closing one."""
        self._by_pairs: dict[frozenset[tuple[str, str]], Labels] = {frozenset(): _EMPTY}

    def read(self, line: str, position: int) -> tuple[Labels, int]:
        """The labels that begin at `position` (none when there is no brace) and where they end.

        Raises LabelsError.
        """
        if not line.startswith("{", position):
            return _EMPTY, position
        # Nearly always the labels end at the first `"} `. Where that stands inside a value, the text before it is in
        # no table unless it is a whole label part by itself, which an open quote cannot be.
        close = line.find('"} ', position)
        if close >= 0:
            known = self.known.get(line[position + 1 : close + 2])
            if known is not None:
                return known, close + 2
        block = _BLOCK.match(line, position)
        if block is None:
            raise LabelsError(Skip.BAD_LABELS)
        return self._parse(block[1], line[position + 1 : block.end()]), block.end()

    def forget_beyond(self, most: int) -> None:
        """Keep no more than so many texts: labels that change with every body must not pile up."""
        if len(self.known) > most:
            self.known.clear()
            self._by_pairs = {frozenset(): _EMPTY}

    def _parse(self, pairs: str, text: str) -> Labels:
        found = [(_name(name), _unescape(value)) for name, value in _PAIRS.findall(pairs)]
        labels = dict(found)
        if len(labels) < len(found):
            raise LabelsError(Skip.BAD_LABELS)
        if len(labels) > self._most:
            raise LabelsError(Skip.TOO_MANY_LABELS)
        if any(len(value) > self._longest for value in labels.values()):
            raise LabelsError(Skip.LABEL_TOO_LONG)
        same = self._by_pairs.setdefault(frozenset(labels.items()), labels)
        self.known[text] = same
        return same


def _name(text: str) -> str:
    return _unescape(text[1:-1]) if text.startswith('"') else text


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)
