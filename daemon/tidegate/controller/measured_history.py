"""The past of any series as a Prometheus has it: the port `Histories` over its API, a few queries for a question."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tidegate.controller.source_ports import PastWords, Samples
from tidegate.controller.stepwise import CounterSteps, Steps, aligned, either, fallen, increases, together
from tidegate.model.history import (
    QUANTILES,
    Across,
    Aggregate,
    History,
    Kind,
    Label,
    Layer,
    LimitError,
    Limits,
    Line,
    Metric,
    Question,
)
from tidegate.model.missing import Missing
from tidegate.model.reading import Histogram
from tidegate.model.scrape import Labels
from tidegate.model.window import quantile

_STEPS_AT_ONCE = 10_000
"""Prometheus answers 11,000 points of a series at most."""
_FALLS_AT_ONCE = 50
"""So many steps with a restart are looked at sample by sample; in the others what stands at the end counts."""
_FAR = timedelta(hours=1)
"""So long before the first step a counter's last sample is looked for: the first increase begins there."""
_PIECE = timedelta(hours=6)
"""Raw samples are asked for in pieces."""
_OVER_TIME = {
    Aggregate.AVG: "avg_over_time",
    Aggregate.MIN: "min_over_time",
    Aggregate.MAX: "max_over_time",
    Aggregate.SUM: "sum_over_time",
    Aggregate.COUNT: "count_over_time",
    Aggregate.LAST: "last_over_time",
}
_Words = tuple[tuple[Label, str], ...]
_Key = frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Asked:
    """A question on its way: the series that it is about, by how Prometheus labels them, and what was noted."""

    question: Question
    limits: Limits
    selector: str
    series: Mapping[_Key, _Words]
    notes: dict[str, None] = field(default_factory=dict)

    def ends(self, step: timedelta) -> list[float]:
        """The ends of the steps, with one step before the first: a counter's increase begins there."""
        grid, width = self.question.grid(step), step.total_seconds()
        return [float(grid.start), *(start + width for start in grid)]


class MeasuredHistory:
    """Implements the port `Histories`."""

    def __init__(self, samples: Samples, words: PastWords) -> None:
        self._samples, self._words = samples, words

    def query(self, question: Question, limits: Limits = Limits()) -> History:  # noqa: B008 - a frozen value
        """The answer, over the samples as they were scraped. Raises ValueError, LimitError or what the server did."""
        question = question.bounded(limits)
        asked = self._asked(question, limits)
        lines = self._as_taken(asked) if question.step is None else self._by_steps(asked, question.step)
        return History(question, question.step, Layer.RAW, tuple(lines), tuple(asked.notes))

    def labels(self, metric: Metric, label: Label, since: datetime, until: datetime) -> Sequence[str]:
        """The values that a label has among the metric's series with samples in the time, sorted."""
        found = self._described(metric, since, until)
        return sorted({text for words in found.values() for word, text in words if word is label})

    def _described(self, metric: Metric, since: datetime, until: datetime) -> dict[_Key, _Words]:
        found = self._samples.labels(self._words.series(metric), since, until)
        agents = self._samples.labels(self._words.agents(), since, until)
        described = self._words.described(metric, found, agents)
        return {_key(labels): tuple(sorted(words.items())) for labels, words in zip(found, described, strict=True)}

    def _asked(self, question: Question, limits: Limits) -> _Asked:
        everything = self._described(question.metric, question.since - _lead(question), question.until)
        chosen = {key: words for key, words in everything.items() if _fits(question, dict(words))}
        if len(chosen) > limits.series:
            raise LimitError(
                f"{len(chosen)} series, more than the {limits.series} of an answer: choose by pool, host or engine"
            )
        steps = 1 if question.step is None else len(question.grid(question.step))
        if len(chosen) * steps > limits.points and question.by is None:
            raise LimitError(
                f"{len(chosen)} series of {steps} steps, more than the {limits.points} points of an answer: ask for a "
                "wider step, a shorter time or fewer series"
            )
        selector = self._words.series(question.metric, [dict(key) for key in chosen])
        return _Asked(question, limits, selector, chosen)

    def _as_taken(self, asked: _Asked) -> Iterator[Line]:
        lines: dict[_Words, dict[float, float | None]] = {}
        since, until = asked.question.since, asked.question.until
        for begin in _pieces(since, until):
            end = min(begin + _PIECE, until)
            for series in self._samples.raw(asked.selector, end, end - begin).series if asked.series else ():
                words = asked.series.get(_key(series.labels))
                if words is not None:
                    points = lines.setdefault(words, {})
                    points |= {
                        at: value if math.isfinite(value) else None
                        for at, value in series.points
                        if begin.timestamp() <= at < end.timestamp()
                    }
            if sum(map(len, lines.values())) > asked.limits.points:
                raise LimitError(
                    f"more than the {asked.limits.points} samples of an answer: give a step, a shorter time or fewer "
                    "series"
                )
        for words, points in sorted(lines.items()):
            times = sorted(points)
            yield Line(dict(words), times, [points[at] for at in times])

    def _by_steps(self, asked: _Asked, step: timedelta) -> Iterator[Line]:
        if not asked.series:
            return
        question = asked.question
        if question.metric.kind is Kind.GAUGE or question.aggregate is Aggregate.LAST:
            found = self._over_time(asked, step, _OVER_TIME[question.aggregate])
        else:
            found = self._increases(asked, step)
        once = _once(asked, found)
        starts = [float(start) for start in question.grid(step)]
        for words, values in _grouped(question, step, once):
            yield Line(dict(words), starts, values)

    def _over_time(self, asked: _Asked, step: timedelta, function: str) -> dict[_Key, Steps]:
        """A function of each series' samples in each step, the step before the first included."""
        width = f"{int(step.total_seconds())}s"
        # A step holds its start and not its end; a range of Prometheus holds its end.
        expression = f"{function}({asked.selector}[{width}] offset 1ms)"
        ends = asked.ends(step)
        points: dict[_Key, list[tuple[float, float]]] = {}
        for place in range(0, len(ends), _STEPS_AT_ONCE):
            part = ends[place : place + _STEPS_AT_ONCE]
            answer = self._samples.steps(expression, _moment(part[0]), _moment(part[-1]), step)
            asked.notes |= dict.fromkeys(answer.warnings)
            for series in answer.series:
                points.setdefault(_key(series.labels), []).extend(series.points)
        return {key: aligned(found, ends) for key, found in points.items() if key in asked.series}

    def _increases(self, asked: _Asked, step: timedelta) -> dict[_Key, Steps]:
        named = ("last_over_time", "min_over_time", "count_over_time", "resets")
        last, low, count, falls = (self._over_time(asked, step, function) for function in named)
        before = self._before(asked, step)
        last, low = ({key: _begun(values, before.get(key)) for key, values in each.items()} for each in (last, low))
        nothing = [None] * len(asked.ends(step))
        counters = {
            key: CounterSteps(values, low.get(key, nothing), count.get(key, nothing), falls.get(key, nothing))
            for key, values in last.items()
        }
        broken = {place for counter in counters.values() for place in fallen(counter)}
        samples = self._fallen_samples(asked, step, sorted(broken))
        several = self._of_several_ranks(asked) if broken else frozenset()
        if several:
            asked.notes["after a restart the increases of engines with several ranks are lower bounds"] = None
        return {
            key: increases(counter, samples.get(key, {}), summed=_engine(dict(asked.series[key])) in several)
            for key, counter in counters.items()
        }

    def _before(self, asked: _Asked, step: timedelta) -> Mapping[_Key, float | None]:
        """What each counter had last before the first step."""
        begin = asked.ends(step)[0]
        expression = f"last_over_time({asked.selector}[{int(_FAR.total_seconds())}s] offset 1ms)"
        found = self._samples.instant(expression, _moment(begin)).series
        return {_key(series.labels): aligned(series.points, [begin])[0] for series in found}

    def _fallen_samples(
        self, asked: _Asked, step: timedelta, places: Sequence[int]
    ) -> dict[_Key, dict[int, Sequence[float]]]:
        """The samples of the steps in which some counter fell."""
        ends = asked.ends(step)
        if len(places) > _FALLS_AT_ONCE:
            asked.notes[f"restarts in {len(places)} steps: in {len(places) - _FALLS_AT_ONCE} of them lower bounds"] = (
                None
            )
        found: dict[_Key, dict[int, Sequence[float]]] = {}
        for place in places[-_FALLS_AT_ONCE:]:
            end = _moment(ends[place]) - timedelta(milliseconds=1)
            for series in self._samples.raw(asked.selector, end, step).series:
                first = ends[place] - step.total_seconds()
                values = [value for at, value in series.points if at >= first and math.isfinite(value)]
                if values:
                    found.setdefault(_key(series.labels), {})[place] = values
        return found

    def _of_several_ranks(self, asked: _Asked) -> frozenset[str]:
        """The engines whose counters are sums over ranks: of a fall nobody knows what was added since."""
        span = asked.question.until - asked.question.since
        expression = (
            f"max by (engine, exported_engine) (max_over_time({self._words.ranks()}[{int(span.total_seconds())}s]))"
        )
        found = self._samples.instant(expression, asked.question.until).series
        several = (series.labels for series in found if any(value > 1 for _, value in series.points))
        return frozenset(labels.get("exported_engine") or labels.get("engine", "") for labels in several)


def _key(labels: Labels) -> _Key:
    return frozenset(item for item in labels.items() if item[0] != "__name__")


def _begun(values: Steps, before: float | None) -> Steps:
    """The values, that of the step before the first from further back where it has no sample."""
    return values if values[0] is not None else [before, *values[1:]]


def _engine(words: Mapping[Label, str]) -> str:
    return words.get(Label.ENGINE, "")


def _lead(question: Question) -> timedelta:
    return question.step or timedelta()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _pieces(since: datetime, until: datetime) -> Iterator[datetime]:
    while since < until:
        yield since
        since += _PIECE


def _fits(question: Question, words: Mapping[Label, str]) -> bool:
    return all(words.get(label, "") in values for label, values in question.where.items())


def _once(asked: _Asked, found: Mapping[_Key, Steps]) -> dict[_Words, list[float | None]]:
    """Each series once, however many Prometheus kept it, without the step before the first."""
    kept: dict[_Words, list[Steps]] = {}
    for key in sorted(found, key=sorted):
        kept.setdefault(asked.series[key], []).append(found[key][1:])
    return {words: either(series) for words, series in kept.items()}


def _grouped(
    question: Question, step: timedelta, once: Mapping[_Words, list[float | None]]
) -> Iterable[tuple[_Words, list[float | None]]]:
    by = question.by
    if question.aggregate in QUANTILES:
        return _quantiles(question, once)
    if question.aggregate is Aggregate.RATE:
        width = step.total_seconds()
        once = {words: [None if v is None else v / width for v in values] for words, values in once.items()}
    if by is None:
        return sorted(once.items())
    groups: dict[_Words, list[Steps]] = {}
    for words, values in once.items():
        groups.setdefault(_reduced(words, by), []).append(values)
    return [(words, together(series, question.across)) for words, series in sorted(groups.items())]


def _reduced(words: _Words, by: Sequence[Label]) -> _Words:
    return tuple(item for item in words if item[0] in by)


def _quantiles(
    question: Question, once: Mapping[_Words, list[float | None]]
) -> Iterable[tuple[_Words, list[float | None]]]:
    """The quantile of each group's bucket increases, summed up by bound."""
    groups: dict[_Words, dict[float, list[Steps]]] = {}
    for words, values in once.items():
        bound = float(dict(words).get(Label.LE, "nan"))
        rest = tuple(item for item in words if item[0] is not Label.LE)
        group = rest if question.by is None else _reduced(rest, question.by)
        groups.setdefault(group, {}).setdefault(bound, []).append(values)
    q = QUANTILES[question.aggregate]
    for words, by_bound in sorted(groups.items()):
        bounds = sorted(by_bound)
        columns = zip(*(together(by_bound[bound], Across.SUM) for bound in bounds), strict=True)
        yield words, [_quantile(tuple(bounds), counts, q) for counts in columns]


def _quantile(bounds: tuple[float, ...], counts: Sequence[float | None], q: float) -> float | None:
    known = [count for count in counts if count is not None]
    if len(known) < len(bounds) or not math.isinf(bounds[-1]):
        return None
    found = quantile(Histogram(bounds, tuple(known), 0.0, known[-1]), q)
    return None if isinstance(found, Missing) else found
