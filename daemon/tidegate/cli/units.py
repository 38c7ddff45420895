"""`tidegate units`: print or write the systemd units that travel with the program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.shipped import write_or_print
from tidegate.runtime.share import share_path


def units(
    names: Annotated[
        list[str] | None, typer.Argument(help="agent, controller, rules, processes; all when none is named.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the files into this folder instead.")] = None,
) -> None:
    """Print the systemd units (and the agent's polkit rule and drop-in), or write them into a folder."""
    folder = share_path("systemd")
    files = {
        "agent": folder / "tidegate-agent.service",
        "controller": folder / "tidegate-controller.service",
        "rules": folder / "tidegate-agent.rules",
        "processes": folder / "tidegate-agent-processes.conf",
    }
    write_or_print(files, names or [], output, what="unit")
