"""`tidegate config check`: whether a configuration file can be honoured, and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.runtime.errors import EXIT_CONFIG

if TYPE_CHECKING:
    from tidegate.config.problem import ConfigProblems


app = typer.Typer(help="Check a configuration file.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Check a configuration file."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(readable=False, help="A TOML file (or JSON of the same shape).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    skip_secrets: Annotated[
        bool, typer.Option("--skip-secrets", help="Do not look for the files and variables that hold secrets.")
    ] = False,
) -> None:
    """Print what FILE means and exit 0, or every problem with its line and exit 78."""
    from tidegate.cli.config_view import as_data, as_text
    from tidegate.config.load import load
    from tidegate.config.problem import ConfigProblems
    from tidegate.config.secret_files import SecretsElsewhere, SecretsHere

    try:
        settings = load(file, SecretsElsewhere() if skip_secrets else SecretsHere())
    except ConfigProblems as found:
        typer.echo(
            json.dumps(_refusal(file, found), ensure_ascii=False, indent=2) if as_json else _listing(file, found)
        )
        raise typer.Exit(EXIT_CONFIG) from None
    if as_json:
        typer.echo(_json(as_data(file, settings)))
    else:
        for line in as_text(file, settings):
            typer.echo(line)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, indent=2)


def _listing(file: Path, found: ConfigProblems) -> str:
    count = len(found.problems)
    return f"{found}\n{file}: {count} problem{'s' * (count != 1)}"


def _refusal(file: Path, found: ConfigProblems) -> dict[str, Any]:
    problems = [
        {"file": each.file, "line": each.line, "key": each.key, "message": each.message} for each in found.problems
    ]
    return {"file": str(file), "ok": False, "problems": problems}
