"""One or two readings of an engine as text for a person and as JSON for a program. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.model.reading import EngineReading, EngineState, Gap, Missing, Number
from tidegate.model.window import EngineWindow, Figure, engine_window, figures

_WORDS = {
    Gap.UNREACHABLE: "no answer from the engine",
    Gap.DISABLED: "the engine's metrics are off",
    Gap.STARTING: "the engine is starting",
    Gap.STALE: "it stands still while requests are there",
    Gap.NOT_FINITE: "the engine says NaN or infinity",
    Gap.NOT_SUPPORTED: "the engine does not export it",
    Gap.RESET: "nothing to compare it with: a restart, or new since the first body",
    Gap.NO_TRAFFIC: "nothing happened between the bodies",
    Gap.ONE_SCRAPE: "needs a second body, later than the first",
    Gap.MALFORMED: "the body cannot be used, see the problems",
    Gap.UNAUTHORIZED: "the engine refuses us",
    Gap.NOT_REPORTED: "nobody reported it",
}
_UNITS = {
    Figure.QUEUE_DEPTH: "requests",
    Figure.RUNNING: "requests",
    Figure.KV_CACHE_USAGE: "%",
    Figure.KV_CACHE_HIT_RATE: "%",
    Figure.PROMPT_TOKENS_PER_SECOND: "tokens/s",
    Figure.CACHED_TOKENS_PER_SECOND: "tokens/s",
    Figure.GENERATION_TOKENS_PER_SECOND: "tokens/s",
    Figure.PREEMPTIONS: "times",
    Figure.FINISHED: "requests",
    Figure.ABORTED: "requests",
    Figure.ERRORS: "requests",
}
"""Every other figure is a time, in seconds."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """What was seen."""

    reading: EngineReading
    """The newest."""
    state: EngineState
    window: EngineWindow | None
    figures: Mapping[Figure, Number]
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """As data; `figures` has every name, each with a value or the reason for its absence."""
        return {
            "engine": self.reading.kind.value if self.reading.kind else None,
            "state": self.state.value,
            "model": self.reading.model,
            "hints": list(self.reading.hints),
            "seconds": self.window.seconds if self.window else None,
            "partial": self.window.partial if self.window else None,
            "figures": {
                name.value: {"missing": value.why.value} if isinstance(value, Missing) else {"value": value}
                for name, value in self.figures.items()
            },
            "problems": list(self.problems),
        }

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"engine   {self.reading.kind.value if self.reading.kind else 'not recognised'}"
        yield f"state    {self.state.value}"
        if self.reading.model:
            yield f"model    {self.reading.model}"
        if self.reading.hints:
            yield f"hints    {', '.join(self.reading.hints)}"
        if self.window:
            yield f"window   {self.window.seconds:g} s{', lower bounds' if self.window.partial else ''}"
        yield ""
        for name, value in self.figures.items():
            yield f"{name.value:<32}{_shown(name, value)}"
        if self.problems:
            yield ""
            yield "problems"
            yield from (f"- {problem}" for problem in self.problems)


def view(readings: Sequence[EngineReading]) -> EngineView:
    """Of one or two readings in time order."""
    window = engine_window(readings)
    last = readings[-1]
    seen = None if isinstance(window, Missing) else window
    stalled = seen is not None and not seen.progressing and last.state is EngineState.READY
    earlier = [problem for reading in readings[:-1] for problem in reading.problems if problem not in last.problems]
    problems = [f"first body: {problem}" for problem in earlier]
    problems += [*last.problems, *(seen.notes if seen else ())]
    return EngineView(
        last, EngineState.STALLED if stalled else last.state, seen, figures(readings), tuple(dict.fromkeys(problems))
    )


def _shown(name: Figure, value: Number) -> str:
    if isinstance(value, Missing):
        return f"missing: {value.why.value} ({_WORDS[value.why]})"
    unit = _UNITS.get(name, "s")
    return f"{_number(value * 100 if unit == '%' else value)} {unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
