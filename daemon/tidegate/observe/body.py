"""What one body of a metrics page says of its engine: a reading, or a named state. Pure, and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.model.reading import EngineKind, EngineName, EngineReading, EngineState, GpuCountSource
from tidegate.observe.engines import (
    DIALECTS,
    WANTED,
    Content,
    Dialect,
    JsonDialect,
    detect,
    detect_json,
    is_server_alone,
    stranger,
)
from tidegate.observe.engines.llamacpp import refused
from tidegate.observe.labels import Skip
from tidegate.observe.textformat import LIMITS, Exposition, LayoutParser, Limits

NO_STATS = (
    "only the server's own series (python_, process_, http_), none of an engine: start vLLM without "
    "--disable-log-stats, or give the engine's own address if this is something in front of it"
)
_EXCERPT = 120
_LONGEST = 500
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a body came from, as far as it tells how to read it."""

    path: str = ""
    """The path of the page's address."""
    kind: EngineKind | None = None
    """Whose page the configuration says it is; None: whose series are in it."""


def body_parser(limits: Limits = LIMITS) -> LayoutParser:
    """A parser of what any dialect looks at; one that is kept for an engine reads its next body faster."""
    return LayoutParser(WANTED, limits)


def read_body(
    name: EngineName,
    body: bytes,
    at: datetime,
    content_type: str | None = None,
    parser: LayoutParser | None = None,
    origin: Origin = Origin(),
) -> EngineReading:
    """Read a body that arrived at `at`; `content_type` as the server gave it, None when it came from elsewhere.

    A body that was cut gives neither counters nor gauges: what is not in it is not zero. Over HTTP a length tells
    that; of a file that was cut between two lines nothing does, so its last family is not used.
    """
    sheet = _Sheet(name, at, content_type, parser or body_parser(), origin)
    if len(body) > sheet.parser.limits.body_bytes:
        problem = f"the body is over {sheet.parser.limits.body_bytes} bytes: not read"
        return failed(name, at, EngineState.MALFORMED, problem)
    if not body.strip():
        return failed(name, at, EngineState.EMPTY, "the body is empty: the engine has no metrics (yet)")
    return _read_foreign(name, body, at, content_type or "") or sheet.read(body)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A body of text, and what is known about it beside its lines."""

    name: EngineName
    at: datetime
    content_type: str | None
    parser: LayoutParser
    origin: Origin

    def read(self, body: bytes) -> EngineReading:
        exposition = self.parser.parse(body, self.content_type or "")
        kind = self.origin.kind
        dialect = detect(exposition.present, self.origin.path) if kind is None else DIALECTS[kind]
        skipped = skipped_words(exposition.skipped)
        if not exposition.whole:
            problem = "the body is cut short (its end is missing): nothing of it is used"
            return failed(self.name, self.at, EngineState.TRUNCATED, problem, *skipped, dialect=dialect)
        if dialect is None:
            return failed(self.name, self.at, *_no_engine(exposition), *skipped)
        if dialect.also_wanted and (more := dialect.also_wanted(exposition.present)):
            exposition = LayoutParser(more, self.parser.limits).parse(body, self.content_type or "")
        exposition, doubts = self._without_its_end(exposition, dialect)
        content = dialect.read(exposition)
        if kind is not None and not (content.gauges or content.counters or content.histograms):
            return failed(self.name, self.at, *_not_as_declared(exposition, dialect), *skipped)
        return _reading(self.name, self.at, dialect, content, (*skipped, *doubts))

    def _without_its_end(self, exposition: Exposition, dialect: Dialect) -> tuple[Exposition, tuple[str, ...]]:
        last = exposition.last
        if self.content_type is not None or last not in dialect.wanted - dialect.ends_with:
            return exposition, ()
        doubt = f"{last} ends a body that may be cut after any of its lines: it is not used"
        return _without(exposition, last), (doubt,)


def _reading(
    name: EngineName, at: datetime, dialect: Dialect | JsonDialect, content: Content, problems: tuple[str, ...] = ()
) -> EngineReading:
    nothing = () if content.gauges or content.counters else (f"{dialect.title} shows none of the figures read here",)
    return EngineReading(
        name,
        dialect.kind,
        EngineState.READY,
        at,
        content.gauges,
        content.counters,
        content.histograms,
        started=content.started,
        model=None if content.model is None else _plain(content.model),
        hints=tuple(map(_plain, content.hints)),
        problems=tuple(map(_plain, (*nothing, *problems, *content.problems))),
        gpus=content.gpus,
        gpus_source=None if content.gpus is None else GpuCountSource.ENGINE,
        kv_usage_basis=content.kv_usage_basis,
    )


def _without(exposition: Exposition, name: str) -> Exposition:
    samples = {other: found for other, found in exposition.samples.items() if other != name}
    return replace(exposition, samples=samples, spoiled=exposition.spoiled | {name})


def failed(
    name: EngineName, at: datetime, state: EngineState, *problems: str, dialect: Dialect | None = None
) -> EngineReading:
    """A reading without a figure, and why."""
    return EngineReading(name, dialect.kind if dialect else None, state, at, problems=problems)


def _read_foreign(name: EngineName, body: bytes, at: datetime, content_type: str) -> EngineReading | None:
    """The reading of a body that is no exposition at all, by what it begins with; None when it may be one."""
    start = body.lstrip()[:1]
    if start == b"<" or "html" in content_type:
        problem = f"the body is HTML, not metrics: is the path right?: {excerpt(body)}"
        return failed(name, at, EngineState.MALFORMED, problem)
    if "json" not in content_type and start not in b"[{":
        return None
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        problem = f"the body is no valid JSON, though it says so: {excerpt(body)}"
        return failed(name, at, EngineState.MALFORMED, problem) if "json" in content_type else None
    return _read_document(name, document, at, excerpt(body))


def _read_document(name: EngineName, document: object, at: datetime, shown: str) -> EngineReading:
    if (refusal := refused(document)) is not None:
        return failed(name, at, *refusal)
    dialect = detect_json(document)
    if dialect is None:
        return failed(name, at, EngineState.MALFORMED, f"the body is JSON, not metrics: {shown}")
    return _reading(name, at, dialect, dialect.read(document))


def _no_engine(exposition: Exposition) -> tuple[EngineState, str]:
    if not exposition.present:
        if Skip.NO_NAME in exposition.skipped:
            return EngineState.MALFORMED, "no engine recognised: the body is not in the Prometheus text format"
        return EngineState.EMPTY, "the body has comments and not one sample: the engine has no metrics (yet)"
    if is_server_alone(exposition.present):
        return EngineState.DISABLED, NO_STATS
    other = stranger(exposition.present)
    if other:
        return EngineState.UNSUPPORTED, f"this is {other}"
    some = ", ".join(sorted(exposition.present)[:3])
    return EngineState.MALFORMED, f"no engine recognised by its series ({_printable(some)}, ...)"


def _not_as_declared(exposition: Exposition, declared: Dialect) -> tuple[EngineState, str]:
    """Why a page has nothing of the engine whose it is said to be."""
    real = detect(exposition.present)
    if real is not None and real is not declared:
        return EngineState.MALFORMED, f"declared as {declared.title}, and it is {real.title}: correct the engine's kind"
    state, problem = _no_engine(exposition)
    return state, f"declared as {declared.title}: {problem}"


def skipped_words(skipped: Mapping[Skip, int]) -> tuple[str, ...]:
    """What the parser left out, one problem a reason."""
    return tuple(f"skipped: {why.value} ({count} times)" for why, count in skipped.items())


def excerpt(body: bytes) -> str:
    """The beginning of a body, fit for a log line."""
    return _printable(body[: 4 * _EXCERPT].decode(errors="replace"))


def _plain(text: str) -> str:
    """A text with an engine's own words in it, fit for one line of a terminal, a page or a label: any script, no codes.

    What an engine calls its model may hold anything, line breaks and a terminal's control sequences too.
    """
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."


def _printable(text: str) -> str:
    plain = _UNPRINTABLE.sub(" ", text).strip()
    return plain if len(plain) <= _EXCERPT else f"{plain[:_EXCERPT]}..."
