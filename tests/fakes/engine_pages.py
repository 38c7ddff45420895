"""Readings of small engine pages, written by hand or inline, as if a server had sent them whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.model.reading import Counter, Distribution, EngineName, EngineReading, Gauge, Number
from tidegate.observe.body import Origin, read_body

CAPTURES = Path(__file__).parents[1] / "captures"
AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
PLAIN = Origin()


def text(page: str, seconds: float = 0.0, origin: Origin = PLAIN) -> EngineReading:
    """A page of text."""
    return read_body(EngineName("e"), page.encode(), AT + timedelta(seconds=seconds), "text/plain", origin=origin)


def json(page: str, seconds: float = 0.0) -> EngineReading:
    """A page of JSON."""
    return read_body(EngineName("e"), page.encode(), AT + timedelta(seconds=seconds), "application/json")


def capture(name: str, seconds: float = 0.0, origin: Origin = PLAIN) -> EngineReading:
    """One of `tests/captures`."""
    page = (CAPTURES / name).read_text()
    return json(page, seconds) if name.endswith(".json") else text(page, seconds, origin)


def gauges(reading: EngineReading) -> dict[Gauge, Number]:
    """Of an engine with one rank."""
    return {gauge: value for (gauge, _), value in reading.gauges.items()}


def counters(reading: EngineReading) -> dict[Counter, float]:
    """Of an engine with one rank."""
    return {counter: total for (counter, _), total in reading.counters.items()}


def means(reading: EngineReading) -> dict[Distribution, float]:
    """Since the start, of an engine with one rank."""
    return {which: histogram.sum / histogram.count for (which, _), histogram in reading.histograms.items()}
