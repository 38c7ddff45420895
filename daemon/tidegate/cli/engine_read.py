"""The readings of engines' pages: from files, standard input or URLs, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget
from tidegate.observe.body import read_body
from tidegate.observe.scrape import EngineScraper
from tidegate.observe.textformat import LIMITS
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent

_SCRAPE_TIMEOUT = timedelta(seconds=10)
_NO_PAGE = (EngineState.UNREACHABLE, EngineState.HANGING)
_REMEDY = "give a file, - for standard input, or an http(s) URL"


def readings_of(sources: Sequence[str], interval: timedelta, clock: Clock) -> list[EngineReading]:
    """Read in turn. Scrapes are as far apart as they really were; where a file is among them, by the interval."""
    readings: list[EngineReading] = []
    with closing(EngineScraper(_SCRAPE_TIMEOUT, clock, keep_alive=2 * interval)) as scraper:
        for source in sources:
            if readings and is_url(source):
                clock.wait(Event(), interval)
            readings.append(_scraped(source, scraper, clock) if is_url(source) else _opened(source, clock))
    if len(readings) == 2 and not all(map(is_url, sources)):
        readings[1] = replace(readings[1], at=readings[0].at + interval)
    return readings


def is_url(source: str) -> bool:
    """Whether a source is to be scraped."""
    return source.startswith(("http://", "https://"))


def _scraped(url: str, scraper: EngineScraper, clock: Clock) -> EngineReading:
    reading = scraper.read(EngineTarget(EngineName("engine"), url), clock.now())
    if reading.state in _NO_PAGE:
        raise Permanent(f"no page to read: {'; '.join(reading.problems)}")
    return reading


def _opened(source: str, clock: Clock) -> EngineReading:
    try:
        if source == "-":
            body = sys.stdin.buffer.read(LIMITS.body_bytes + 1)
        else:
            with Path(source).open("rb") as file:
                body = file.read(LIMITS.body_bytes + 1)
    except OSError as error:
        raise Permanent(f"cannot read {source}: {error.strerror}; {_REMEDY}") from error
    return read_body(EngineName("engine"), body, clock.now())
