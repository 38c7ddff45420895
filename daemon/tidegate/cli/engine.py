"""`tidegate engine read`: what Tidegate sees in an engine's metrics page, and why it does not see the rest."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Annotated

import typer

_DEFAULT_INTERVAL = 15.0

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
    from tidegate.cli.engine_read import is_url, readings_of
    from tidegate.cli.engine_view import view
    from tidegate.runtime.clock import clock_from_environment

    sources = [body] if body2 is None else [body, body2]
    if interval is not None and body2 is None:
        if not is_url(body):
            raise typer.BadParameter("--interval needs a second body, or a URL that can be scraped again")
        sources = [body, body]
    if sources.count("-") > 1:
        raise typer.BadParameter("standard input gives one body only")
    seconds = _DEFAULT_INTERVAL if interval is None else interval
    if math.isnan(seconds):  # compares with no bound
        raise typer.BadParameter("--interval is not a number")
    readings = readings_of(sources, timedelta(seconds=seconds), clock_from_environment())
    seen = view(readings)
    typer.echo(json.dumps(seen.as_json(), indent=2) if as_json else seen.as_text(), nl=True)
