"""Print files that travel with the program, or write them into a folder."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from tidegate.runtime.errors import Permanent


def write_or_print(files: Mapping[str, Path], names: Sequence[str], output: Path | None, *, what: str) -> None:
    """Print the named files (all when none is named) or write them below `output`; raises Permanent on a wrong name."""
    for name in names:
        if name not in files:
            near = difflib.get_close_matches(name, files, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Permanent(f"no {what} is called {name!r}: there are {', '.join(files)}{hint}")
    chosen = {name: files[name] for name in (names or files)}
    for name, path in chosen.items():
        if output is None:
            if len(chosen) > 1:
                typer.echo(f"# ---- {path.name}")
            typer.echo(path.read_text().rstrip("\n"))
        else:
            target = output / (name if "/" in name else path.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text())
            typer.echo(str(target))
