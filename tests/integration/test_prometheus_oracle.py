"""Random lives of an engine in a real Prometheus: what is read of them is what the scraped samples add up to."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.prometheus_blocks import LoadedPrometheus
from fakes.scrapes import scraped
from fakes.source_story import BEGIN, G1, STEP, look_at, page

from tidegate.controller.measured_history import MeasuredHistory
from tidegate.expose.history_words import PastWords
from tidegate.model.history import METRICS, Aggregate, Question
from tidegate.model.reading import HostReading
from tidegate.model.scrape import PrometheusPlace, SampleSeries
from tidegate.model.snapshot import AgentSnapshot
from tidegate.observe.prometheus import Prometheus

NAME = "tidegate_generation_tokens_total"
LENGTH = timedelta(hours=3)
TOKENS = METRICS["generation_tokens"]
Points = Sequence[tuple[float, float]]


def life(dice: random.Random) -> Iterator[SampleSeries]:
    """Scrapes that fail for seconds and for half an hour, an engine that is gone for a while, restarts, NaNs."""
    looks: list[HostReading] = []
    quiet = gone = 0
    for number in range(LENGTH // STEP):
        quiet = quiet - 1 if quiet else (dice.random() < 0.02) * dice.choice([1, 4, 30, 120])
        gone = gone - 1 if gone else (dice.random() < 0.01) * dice.choice([1, 8, 60])
        if not quiet:
            seen = look_at(G1, BEGIN + STEP * number)
            looks.append(replace(seen, engines=()) if gone else seen)
    pages = [page([look]) if look.engines else empty_page(look) for look in looks]
    total = 0.0
    for series in scraped(((look.at.timestamp() + 4.5, shown) for look, shown in zip(looks, pages, strict=True))):
        if series.labels["__name__"] != NAME:
            yield series
            continue
        points = []
        for at, _ in series.points:
            falls = dice.random() < 0.02 and not (points and math.isnan(points[-1][1]))
            total = 0.0 if falls else total + dice.choice([0, 1, 7, 100_003])
            points.append((at, math.nan if dice.random() < 0.01 and not falls else total))
        yield SampleSeries(series.labels, points)


def empty_page(look: HostReading) -> AgentSnapshot:
    """Of a host without an engine."""
    return AgentSnapshot("1.0", look, look.at + timedelta(seconds=0.25), collect_seconds=0.25, collections=1)


@pytest.fixture(scope="module", params=[1, 2])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Points]]:
    """A Prometheus, and the samples of the counter that it was given."""
    series = list(life(random.Random(request.param)))
    points = [point for one in series if one.labels["__name__"] == NAME for point in one.points]
    with LoadedPrometheus(tmp_path_factory.mktemp("lives") / "prometheus", series) as running:
        yield running.url, sorted(points)


def histories(url: str) -> MeasuredHistory:
    place = PrometheusPlace(url, timeout=timedelta(seconds=20))
    return MeasuredHistory(Prometheus(lambda: place), PastWords(lambda: place))


def increases(points: Points, starts: Sequence[float]) -> Mapping[float, float]:
    """What each number adds to the one before it, by the step that it lies in; a fall is a start at zero."""
    found: dict[float, float] = {}
    last: float | None = None
    for at, total in points:
        if math.isnan(total):
            continue
        place = bisect_right(starts, at) - 1
        if last is not None and place >= 0:
            found[starts[place]] = found.get(starts[place], 0.0) + (total - last if total >= last else total)
        last = total
    return found


@pytest.mark.parametrize("seconds", [300, 420, 77, 15, 3600, 10_800])
@pytest.mark.parametrize("minutes", [(-60, 180), (-60, 151.12), (31, 47), (77.5, 99.9), (140, 180)])
def test_increases_are_those_of_the_samples(
    told: tuple[str, Points], seconds: int, minutes: tuple[float, float]
) -> None:
    """Over gaps, restarts, borders of steps and NaNs; the steps need not divide the time that is asked for."""
    url, points = told
    since, until = (BEGIN + timedelta(minutes=each) for each in minutes)
    width = timedelta(seconds=seconds)
    answer = histories(url).query(Question(TOKENS, since, until, width, Aggregate.INCREASE))
    (line,) = answer.lines
    wanted = increases([point for point in points if point[0] < line.at[-1] + seconds], line.at)
    seen = {at: value for at, value in zip(line.at, line.values, strict=True) if value is not None}
    assert seen == pytest.approx(wanted)


def test_samples_are_those_that_were_scraped(told: tuple[str, Points]) -> None:
    url, points = told
    around = timedelta(hours=1)
    answer = histories(url).query(Question(TOKENS, BEGIN - around, BEGIN + LENGTH + around, None))
    (line,) = answer.lines
    assert list(zip(line.at, line.values, strict=True)) == [
        (pytest.approx(at), None if math.isnan(value) else value) for at, value in points
    ]
