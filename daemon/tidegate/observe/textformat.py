"""Read a Prometheus exposition (text 0.0.4 or OpenMetrics 1.0), only the samples asked for, and never raise.

An engine's bodies differ from one scrape to the next in their values alone. So a `LayoutParser` remembers the label
texts of the last body, and a line of the next one costs two look-ups; numbers are read a family at a time.

Names are compared after `:` and `.` became `_`, because an OpenMetrics body may call a sample `vllm_x` under a TYPE
line that says `vllm:x`; so TYPE lines decide nothing here. A sample is read by its exact name: the `_created` times
that OpenMetrics puts beside a counter are values of nobody unless they are asked for by that name.

Sources: prometheus.io, "Exposition formats"; OpenMetrics 1.0, "ABNF".
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tidegate.observe.exposition import Exposition, Sample, Samples
from tidegate.observe.labels import LabelReader, Labels, LabelsError, LabelSets, Skip

__all__ = ["LIMITS", "Exposition", "LayoutParser", "Limits", "Sample", "Samples", "normalise", "parse"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a body is read; what is above is skipped and counted."""

    body_bytes: int = 16 * 1024 * 1024
    """vmagent's default cap; bodies of 22 MB were seen, made of one label."""
    series: int = 20_000
    labels: int = 128
    """vLLM's `cache_config_info` alone has some fifty."""
    label_length: int = 1024


LIMITS = Limits()


_HEAD = re.compile(r'[ \t]*(?:([a-zA-Z_:][a-zA-Z0-9_:.]*)(?=[ \t\r{]|$)[ \t]*|\{[ \t]*"([^"\\]+)"[ \t]*(?=[,}]))')
_TAIL = re.compile(
    r"[ \t]*([^ \t\r#]+)"  # the value
    r"(?:[ \t]+-?[0-9][0-9.eE+-]*)?"  # a timestamp
    r"[ \t\r]*(?:#[ \t]+\{.*)?"  # an exemplar
)
_COUNTER_TYPE = re.compile(r"# TYPE (\S+) counter\r?$", re.MULTILINE)
_END_MARKS = ("# EOF", "# EOF\r")


def normalise(name: str) -> str:
    """The name with `:` and `.` as `_`, so that every spelling of a family is one."""
    return name.replace(":", "_").replace(".", "_")


def parse(
    body: bytes, wanted: Container[str] | None = None, content_type: str = "", limits: Limits = LIMITS
) -> Exposition:
    """Read the samples whose normalised name is in `wanted` (all when None); never raises."""
    return LayoutParser(wanted, limits).parse(body, content_type)


class LayoutParser:
    """Parses bodies that are much alike, one at a time: those of one engine.

    What it remembers makes a body quicker to read and never changes what is read; it is bounded by the last body.
    """

    def __init__(self, wanted: Container[str] | None = None, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self._wanted = wanted
        self._labels = LabelReader(limits.labels, limits.label_length)
        self._layouts: dict[str, LabelSets] = {}

    def parse(self, body: bytes, content_type: str = "") -> Exposition:
        """Read the samples whose normalised name is wanted; never raises."""
        reader = _Reader(self._wanted, self.limits, self._labels)
        text = reader.decode(body[: self.limits.body_bytes])
        lines = text.split("\n")
        end = min((lines.index(mark) for mark in _END_MARKS if mark in lines), default=None)
        if end is not None:
            reader.skip(Skip.AFTER_END, sum(1 for line in lines[end + 1 :] if line.strip()))
            del lines[end:]
        reader.read(lines)
        samples = reader.settle(self._layouts)
        self._layouts = {name: found.labels for name, found in samples.items()}
        self._labels.forget_beyond(2 * sum(map(len, samples.values())) + _SPARE)
        present = frozenset(map(normalise, reader.names))
        whole = len(body) <= self.limits.body_bytes and (
            end is not None or (body.endswith(b"\n") and not _is_openmetrics(text, present, content_type))
        )
        last = next(filter(str.strip, reversed(lines)), "") if end is None else ""
        return Exposition(samples, present, frozenset(reader.spoiled), reader.skipped, _name_of(last), whole)


_SPARE = 64
"""Label texts that a parser may keep beyond twice those of a body."""


def _name_of(line: str) -> str:
    match = _HEAD.match(line)
    return normalise(match[1] or match[2]) if match else ""


def _is_openmetrics(text: str, present: frozenset[str], content_type: str) -> bool:
    """By what the server said; else by a counter whose TYPE line lacks the `_total` that its samples have."""
    if content_type:
        return "openmetrics" in content_type.lower()
    for match in _COUNTER_TYPE.finditer(text):
        family = normalise(match[1])
        at_start = match.start() == 0 or text[match.start() - 1] == "\n"
        if at_start and family not in present and f"{family}_total" in present:
            return True
    return False


class _Column:
    """The samples of one name while a body is read: their labels, and what stands behind these."""

    __slots__ = ("labels", "name", "texts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.labels: list[Labels] = []
        self.texts: list[str] = []


_UNKNOWN = _Column("")
"""Stands for a name of which no line was seen yet."""


class _Reader:
    """Collects the samples of one body."""

    def __init__(self, wanted: Container[str] | None, limits: Limits, labels: LabelReader) -> None:
        self.skipped: dict[Skip, int] = {}
        self.spoiled: set[str] = set()
        self.names: set[str] = set()
        """As they are spelt, wanted or not."""
        self._wanted = wanted
        self._room = limits.series
        self._labels = labels
        self._columns: dict[str, _Column] = {}
        """By normalised name."""
        self._by_head: dict[str, _Column | None] = {}
        """By what precedes the brace; None when nobody asked for it."""

    def skip(self, why: Skip, count: int = 1) -> None:
        if count:
            self.skipped[why] = self.skipped.get(why, 0) + count

    def decode(self, body: bytes) -> str:
        try:
            return body.decode()
        except UnicodeDecodeError:
            text = body.decode(errors="replace")
            self.skip(Skip.NOT_UTF8, text.count("\ufffd"))
            return text

    def read(self, lines: Iterable[str]) -> None:
        """Take the lines apart by what was seen before: `name{` a known name, then labels of a known text, a value."""
        by_head, known = self._by_head, self._labels.known
        for line in lines:
            head, _, rest = line.partition("{")
            column = by_head.get(head, _UNKNOWN)
            if column is _UNKNOWN:
                self._first(line)
            elif column is not None:
                text, _, value = rest.rpartition(" ")
                labels = known.get(text)
                if labels is None or not self._room:
                    self._sample(column, line, len(head))
                else:
                    self._room -= 1
                    column.labels.append(labels)
                    column.texts.append(value)

    def settle(self, layouts: Mapping[str, LabelSets]) -> dict[str, Samples]:
        """Make numbers of what was read; `layouts` are those of the body before."""
        samples: dict[str, Samples] = {}
        for name, column in self._columns.items():
            found = self._samples(column, layouts.get(name))
            if found and name not in self.spoiled:
                samples[name] = found
        return samples

    def _first(self, line: str) -> None:
        """A comment, a line without labels, or the first one of its name."""
        if not line or line[0] == "#":
            return
        match = _HEAD.match(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                self.skip(Skip.NO_NAME)
            return
        spelt = match[1] or match[2]
        self.names.add(spelt)
        name = normalise(spelt)
        column = None
        if self._wanted is None or name in self._wanted:
            column = self._columns.setdefault(name, _Column(name))
            self._sample(column, line, match.end() if match[1] else line.index("{"))
        if match[1]:
            self._by_head[spelt] = column

    def _sample(self, column: _Column, line: str, position: int) -> None:
        """Read a line's labels from `position` on."""
        if not self._room:
            self._spoil(column.name, Skip.TOO_MANY_SERIES)
            return
        self._room -= 1
        try:
            labels, position = self._labels.read(line, position)
        except LabelsError as error:
            self._spoil(column.name, error.why)
            return
        column.labels.append(labels)
        column.texts.append(line[position:])

    def _samples(self, column: _Column, layout: LabelSets | None) -> Samples:
        """The samples of one name, each series once: the first one stands."""
        sets, values = tuple(column.labels), self._numbers(column)
        if layout is not None and layout.sets == sets:
            return Samples(layout, values)
        places = {id(labels): place for place, labels in reversed([*enumerate(sets)])}  # equal labels are one object
        if len(places) < len(sets):
            self.skip(Skip.DUPLICATE, len(sets) - len(places))
            kept = sorted(places.values())
            sets, values = tuple(sets[place] for place in kept), [values[place] for place in kept]
        return Samples(LabelSets(sets), values)

    def _numbers(self, column: _Column) -> list[float]:
        """The values; one that is no number spoils the name."""
        texts = column.texts
        if _are_plain(texts):
            with suppress(ValueError):
                return list(map(float, texts))
        values = []
        for text in texts:
            value = _number(text)
            if value is None:
                self._spoil(column.name, Skip.BAD_VALUE if text.strip() else Skip.NO_VALUE)
            values.append(math.nan if value is None else value)
        return values

    def _spoil(self, name: str, why: Skip) -> None:
        self.spoiled.add(name)
        self.skip(why)


def _are_plain(texts: Iterable[str]) -> bool:
    """False when float() might take what the format does not know: 1_000, and the digits of other scripts."""
    together = "".join(texts)
    return together.isascii() and "_" not in together


def _number(text: str) -> float | None:
    """The value at the beginning; a timestamp or an exemplar may follow."""
    match = _TAIL.fullmatch(text)
    if match is None or not _are_plain(match[1]):
        return None
    try:
        return float(match[1])
    except ValueError:
        return None
