"""`tidegate demo`: watch a fleet scale out and back in, on a machine without a GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def demo(
    once: Annotated[bool, typer.Option("--once", help="Play one day, print the summary and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout; progress on stderr.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(min=1, max=1440, help="Real minutes for a day; not given: 2.5, on a busy machine up to 5."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Keep everything in this folder (empty or absent); logs are in it.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the temporary folder at the end.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed gives another day.")] = 1,
) -> None:
    """Play a day of traffic over simulated GPUs and engines, with a real controller and real agents on loopback.

    Ends 0 when all that the summary promises holds, else 1. Without --once time goes on until Ctrl-C.
    """
    from tidegate.demo.play import Options, play

    played = _own_pace() if minutes is None else minutes
    raise typer.Exit(play(Options(once or as_json, as_json, played, state, keep, seed)))


def _own_pace() -> float:
    """As fast as the machine allows; says so where it is busy."""
    from tidegate.demo.pace import MINUTES, minutes_beside

    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    minutes = minutes_beside(load, cores)
    if minutes > MINUTES:
        busy = f"this machine is busy (load {load:.1f} on {cores} cores): the day takes {minutes:g} minutes"
        typer.echo(f"{busy}; --minutes {MINUTES:g} plays it as on a quiet one", err=True)
    return minutes
