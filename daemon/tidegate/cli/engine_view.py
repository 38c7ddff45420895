"""One or two readings of an engine as text for a person and as JSON for a program. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from tidegate.model.figures import MEANS, QUANTILES, TIERS, Figure, basis, figures, saturated
from tidegate.model.reading import Basis, EngineReading, EngineState, Gap, Missing, Number
from tidegate.model.window import EngineWindow, engine_window

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
_MANY = 12
_UNITS = {
    **dict.fromkeys(QUANTILES, "s"),
    **dict.fromkeys(MEANS, "s"),
    **dict.fromkeys(TIERS, "%"),
    Figure.KV_CACHE_USAGE: "%",
    Figure.KV_CACHE_USAGE_MEAN: "%",
    Figure.KV_CACHE_HIT_RATE: "%",
    Figure.PROMPT_TOKENS_PER_SECOND: "tokens/s",
    Figure.CACHED_TOKENS_PER_SECOND: "tokens/s",
    Figure.COMPUTED_TOKENS_PER_SECOND: "tokens/s",
    Figure.GENERATION_TOKENS_PER_SECOND: "tokens/s",
    Figure.PREEMPTIONS: "times",
    Figure.RETRIES: "times",
    Figure.KV_TRANSFERS: "times",
    Figure.KV_TRANSFER_FAILURES: "times",
    Figure.HTTP_ERRORS: "answers",
    Figure.RANK_IMBALANCE: "of 1 (even)",
    Figure.SLEEP_LEVEL: "of 2 (0 is awake)",
    Figure.WORKERS: "workers",
    Figure.WORKERS_UP: "workers",
}
"""Every other figure counts requests."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """What was seen."""

    reading: EngineReading
    """The newest."""
    state: EngineState
    window: EngineWindow | None
    figures: Mapping[Figure, Number]
    problems: tuple[str, ...]
    beyond: frozenset[Figure] = frozenset()
    """Quantiles that lie beyond the last finite bucket, see `figures.saturated`."""

    @property
    def up(self) -> bool:
        """See `EngineReading.up`."""
        return self.reading.up or self.state is EngineState.STALLED

    @property
    def ready(self) -> bool:
        """See `EngineReading.ready`; one that stands still is not."""
        return self.reading.ready and self.state is EngineState.READY

    @property
    def progressing(self) -> bool | None:
        """None where one look cannot tell."""
        return self.window.progressing if self.window else None

    def as_json(self) -> dict[str, object]:
        """As data; `figures` has every name, each with a value or the reason for its absence."""
        return {
            "engine": self.reading.kind.value if self.reading.kind else None,
            "state": self.state.value,
            "up": self.up,
            "ready": self.ready,
            "progressing": self.progressing,
            "model": self.reading.model,
            "gpus": self.reading.gpus,
            "gpus_source": self.reading.gpus_source.value if self.reading.gpus_source else None,
            "hints": list(self.reading.hints),
            "seconds": self.window.seconds if self.window else None,
            "partial": self.window.partial if self.window else None,
            "figures": {name.value: self._figure(name, value) for name, value in self.figures.items()},
            "problems": list(self.problems),
        }

    def _figure(self, name: Figure, value: Number) -> dict[str, object]:
        if isinstance(value, Missing):
            return {"missing": value.why.value}
        found: dict[str, object] = {"value": value}
        counted_in = basis(name, self.reading)
        if counted_in is not None:
            found["basis"] = counted_in.value
        if name in self.beyond:
            found["saturated"] = True
        return found

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        together = self._missing_together()
        yield from self._heading()
        told = [
            f"{name.value:<32}{_shown(name, value)}{self._remark(name, value)}"
            for name, value in self.figures.items()
            if not (isinstance(value, Missing) and value.why in together)
        ]
        yield from ["", *told] if told else []
        for why, names in together.items():
            yield ""
            yield f"missing: {why.value} ({_WORDS[why]})"
            yield from wrap(", ".join(names), 100, initial_indent="  ", subsequent_indent="  ")
        if self.problems:
            yield ""
            yield "problems"
            yield from (f"- {problem}" for problem in self.problems)

    def _missing_together(self) -> Mapping[Gap, Sequence[str]]:
        """The figures by the reason for which they are missing, where one line each would say nothing more."""
        found: dict[Gap, list[str]] = {}
        for name, value in self.figures.items():
            if isinstance(value, Missing):
                found.setdefault(value.why, []).append(name.value)
        return {why: names for why, names in found.items() if why is Gap.NOT_SUPPORTED or len(names) >= _MANY}

    def _heading(self) -> Iterator[str]:
        yield f"engine   {self.reading.kind.value if self.reading.kind else 'not recognised'}"
        yield f"state    {self.state.value}"
        if self.reading.model:
            yield f"model    {self.reading.model}"
        if self.reading.hints:
            yield f"hints    {', '.join(self.reading.hints)}"
        if self.reading.gpus is not None and self.reading.gpus_source is not None:
            yield f"gpus     {self.reading.gpus}, says the {self.reading.gpus_source.value}"
        if self.window:
            yield f"window   {self.window.seconds:g} s{', lower bounds' if self.window.partial else ''}"

    def _remark(self, name: Figure, value: Number) -> str:
        if isinstance(value, Missing):
            return ""
        if name in self.beyond:
            return " or more: it lies beyond the last bucket"
        match basis(name, self.reading):
            case Basis.LIFETIME:
                return " since the engine's start"
            case None:
                return ""
            case counted_in:
                return f" of {counted_in.value}"


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
        last,
        EngineState.STALLED if stalled else last.state,
        seen,
        figures(readings, window),
        tuple(dict.fromkeys(problems)),
        saturated(seen) if seen else frozenset(),
    )


def _shown(name: Figure, value: Number) -> str:
    if isinstance(value, Missing):
        return f"missing: {value.why.value} ({_WORDS[value.why]})"
    unit = _UNITS.get(name, "requests")
    return f"{_number(value * 100 if unit == '%' else value)} {unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
