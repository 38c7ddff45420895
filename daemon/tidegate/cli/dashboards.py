"""`tidegate dashboards`: print or write the Grafana boards, their provisioning files and the rules for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.shipped import write_or_print
from tidegate.runtime.share import share_path


def dashboards(
    names: Annotated[list[str] | None, typer.Argument(help="Which to print; all when none is named.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the files into this folder, as Grafana and Prometheus want them.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only list the names.")] = False,
) -> None:
    """Print the Grafana boards and alert rules, or write them and the provisioning files into a folder."""
    folder = share_path("dashboards")
    files = {
        str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".yaml")
    }
    if list_only:
        typer.echo("\n".join(files))
        return
    write_or_print(files, names or [], output, what="dashboard file")
