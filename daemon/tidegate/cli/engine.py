"""`tidegate engine read`: what Tidegate sees in an engine's metrics page, and why it does not see the rest."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from tidegate.cli.engine_view import view
from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget
from tidegate.observe.body import read_body
from tidegate.observe.scrape import EngineScraper
from tidegate.observe.textformat import LIMITS
from tidegate.runtime.clock import Clock, clock_from_environment
from tidegate.runtime.errors import Permanent

_DEFAULT_INTERVAL = 15.0
_SCRAPE_TIMEOUT = timedelta(seconds=10)
_NO_PAGE = (EngineState.UNREACHABLE, EngineState.HANGING)
_REMEDY = "give a file, - for standard input, or an http(s) URL"

app = typer.Typer(no_args_is_help=True)


@app.callback()
def engine() -> None:
    """Look at serving engines."""


@app.command()
def read(
    body: Annotated[str, typer.Argument(metavar="BODY", help="A file, - for standard input, or an http(s) URL.")],
    body2: Annotated[str | None, typer.Argument(metavar="BODY2", help="The same page later: gives the rates.")] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=86400,
            help="Seconds between the two bodies (15 unless given). With one URL: scrape it again after them.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the engine, its state, each figure with its value or why it is missing, and the problems met."""
    sources = [body] if body2 is None else [body, body2]
    if interval is not None and body2 is None:
        if not _is_url(body):
            raise typer.BadParameter("--interval needs a second body, or a URL that can be scraped again")
        sources = [body, body]
    if sources.count("-") > 1:
        raise typer.BadParameter("standard input gives one body only")
    seconds = _DEFAULT_INTERVAL if interval is None else interval
    if math.isnan(seconds):  # compares with no bound
        raise typer.BadParameter("--interval is not a number")
    readings = _readings(sources, timedelta(seconds=seconds), clock_from_environment())
    seen = view(readings)
    typer.echo(json.dumps(seen.as_json(), indent=2) if as_json else seen.as_text(), nl=True)


def _readings(sources: Sequence[str], interval: timedelta, clock: Clock) -> list[EngineReading]:
    """Read in turn. Scrapes are as far apart as they really were; where a file is among them, by the interval."""
    readings: list[EngineReading] = []
    with closing(EngineScraper(_SCRAPE_TIMEOUT, clock, keep_alive=2 * interval)) as scraper:
        for source in sources:
            if readings and _is_url(source):
                clock.wait(Event(), interval)
            readings.append(_scraped(source, scraper, clock) if _is_url(source) else _opened(source, clock))
    if len(readings) == 2 and not all(map(_is_url, sources)):
        readings[1] = replace(readings[1], at=readings[0].at + interval)
    return readings


def _is_url(source: str) -> bool:
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
