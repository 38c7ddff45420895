"""Read a Prometheus exposition (text 0.0.4 or OpenMetrics 1.0), only the samples asked for, and never raise.

Names are compared after `:` and `.` became `_`, because an OpenMetrics body may call a sample `vllm_x` under a TYPE
line that says `vllm:x`; so TYPE lines decide nothing here. A sample is read by its exact name: the `_created` times
that OpenMetrics puts beside a counter are values of nobody unless they are asked for by that name.

Sources: prometheus.io, "Exposition formats"; OpenMetrics 1.0, "ABNF".
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.observe.labels import LabelReader, Labels, LabelsError, Skip


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


class Sample(NamedTuple):
    """One value; the labels mapping is shared between samples and must not be changed."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """What a body said."""

    samples: Mapping[str, Sequence[Sample]]
    """By normalised sample name, in the order of the body. A name with a line that cannot be read is absent as a
    whole: a sum without one of its parts would look like a counter that fell."""
    present: frozenset[str]
    """Normalised names of all sample lines, whether they were asked for or not."""
    spoiled: frozenset[str] = frozenset()
    """The names that are absent for that reason."""
    skipped: Mapping[Skip, int] = field(default_factory=dict)
    last: str = ""
    """The name of the body's last line when that is a sample and nothing says that it is the end."""
    whole: bool = True
    """False when the body was cut: its last line does not end, or an OpenMetrics body lacks `# EOF`."""


_HEAD = re.compile(r'[ \t]*(?:([a-zA-Z_:][a-zA-Z0-9_:.]*)(?=[ \t\r{]|$)[ \t]*|\{[ \t]*"([^"\\]+)"[ \t]*(?=[,}]))')
_TAIL = re.compile(
    r"[ \t]*([^ \t\r#]+)"  # the value
    r"(?:[ \t]+-?[0-9][0-9.eE+-]*)?"  # a timestamp
    r"[ \t\r]*(?:#[ \t]+\{.*)?"  # an exemplar
)
_COUNTER_TYPE = re.compile(r"^# TYPE (\S+) counter\r?$", re.MULTILINE)
_END = re.compile(r"^# EOF\r?$", re.MULTILINE)


def normalise(name: str) -> str:
    """The name with `:` and `.` as `_`, so that every spelling of a family is one."""
    return name.replace(":", "_").replace(".", "_")


def parse(
    body: bytes, wanted: Container[str] | None = None, content_type: str = "", limits: Limits = LIMITS
) -> Exposition:
    """Read the samples whose normalised name is in `wanted` (all when None); never raises."""
    reader = _Reader(wanted, limits)
    text = reader.decode(body[: limits.body_bytes])
    end = _END.search(text)
    if end is not None:
        reader.skip(Skip.AFTER_END, sum(1 for line in text[end.end() :].split("\n") if line.strip()))
        text = text[: end.start()]
    reader.read(text.split("\n"))
    present = frozenset(normalise(name) for name in reader.names)
    whole = len(body) <= limits.body_bytes and (
        end is not None or (body.endswith(b"\n") and not _is_openmetrics(text, present, content_type))
    )
    samples = {name: found for name, found in reader.samples.items() if name not in reader.spoiled}
    last = _name_of(text.rstrip().rpartition("\n")[2]) if end is None else ""
    return Exposition(samples, present, frozenset(reader.spoiled), reader.skipped, last, whole)


def _name_of(line: str) -> str:
    match = _HEAD.match(line)
    return normalise(match[1] or match[2]) if match else ""


def _is_openmetrics(text: str, present: frozenset[str], content_type: str) -> bool:
    """By what the server said; else by a counter whose TYPE line lacks the `_total` that its samples have."""
    if content_type:
        return "openmetrics" in content_type.lower()
    for match in _COUNTER_TYPE.finditer(text):
        family = normalise(match[1])
        if family not in present and f"{family}_total" in present:
            return True
    return False


class _Reader:
    """Collects the samples of one body; its tables live as long as the body."""

    def __init__(self, wanted: Container[str] | None, limits: Limits) -> None:
        self.samples: dict[str, list[Sample]] = {}
        self.skipped: dict[Skip, int] = {}
        self.spoiled: set[str] = set()
        self.names: set[str] = set()
        self._wanted = wanted
        self._limits = limits
        self._labels = LabelReader(limits.labels, limits.label_length)
        self._heads: dict[str, str | None] = {}
        """What precedes the first brace or blank -> the normalised name, or None when nobody asked for it."""
        self._seen: set[tuple[str, int]] = set()

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
        """Filter by name before any work on labels or numbers: most lines of a body are nobody's."""
        heads = self._heads
        for line in lines:
            if not line or line[0] == "#":
                continue
            brace = line.find("{")
            head = line[:brace] if brace >= 0 else line.partition(" ")[0]
            try:
                name = heads[head]
            except KeyError:
                self._first(head, line)
                continue
            if name is not None:
                self._sample(name, line, brace if brace >= 0 else len(head))

    def _first(self, head: str, line: str) -> None:
        """A line whose head was not seen yet: check the name, and remember what is to be done with its like."""
        match = _HEAD.match(line)
        if match is None:
            if line.strip() and not line.lstrip().startswith("#"):
                self.skip(Skip.NO_NAME)
            return
        self.names.add(match[1] or match[2])
        name = normalise(match[1] or match[2])
        is_wanted = self._wanted is None or name in self._wanted
        if match[1] == head:
            self._heads[head] = name if is_wanted else None
        if is_wanted:
            self._sample(name, line, match.end() if match[1] else line.index("{"))

    def _sample(self, name: str, line: str, position: int) -> None:
        """Read labels and value from `position` on."""
        try:
            labels, position = self._labels.read(line, position)
        except LabelsError as error:
            self._spoil(name, error.why)
            return
        value = _number(line[position:])
        if value is None and (tail := _TAIL.fullmatch(line, position)):  # a timestamp or an exemplar follows
            value = _number(tail[1])
        if value is None:
            self._spoil(name, Skip.BAD_VALUE if line[position:].strip() else Skip.NO_VALUE)
        else:
            self._keep(name, labels, value)

    def _spoil(self, name: str, why: Skip) -> None:
        self.spoiled.add(name)
        self.skip(why)

    def _keep(self, name: str, labels: Labels, value: float) -> None:
        key = (name, id(labels))  # equal labels are one object, see LabelReader
        if key in self._seen:
            self.skip(Skip.DUPLICATE)
        elif len(self._seen) >= self._limits.series:
            self._spoil(name, Skip.TOO_MANY_SERIES)
        else:
            self._seen.add(key)
            self.samples.setdefault(name, []).append(Sample(labels, value))


def _number(text: str) -> float | None:
    if "_" in text or not text.isascii():  # float() takes 1_000 and other scripts' digits; the format does not
        return None
    try:
        return float(text)
    except ValueError:
        return None
