"""`tidegate db`: bring the database's tables up to date, and see what lies in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tidegate.runtime.errors import ConfigError

app = typer.Typer(help="The database: its tables and what lies in it.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", readable=False, help="The controller's configuration file, which names the database."
    ),
]
DsnOption = Annotated[
    str | None, typer.Option("--dsn", help="The database's address, instead of a configuration file.")
]


@app.callback()
def _group() -> None:
    """The database: its tables and what lies in it."""


@app.command()
def migrate(config: ConfigOption = None, dsn: DsnOption = None) -> None:
    """Bring the tables up to date. Upgrade the controller first; safe to run again, and while it runs."""
    address, state_dir = which_database(config, dsn)  # a wrong file is told before any library is missed
    from tidegate.store.migrate import upgrade
    from tidegate.store.opening import visited

    with visited(address, state_dir) as database:
        before = upgrade(database)
    if before.up_to_date:
        typer.echo(f"{database.place}: already at revision {before.head}")
    else:
        typer.echo(f"{database.place}: brought from revision {before.current or 'none'} to {before.head}")


@app.command()
def status(
    config: ConfigOption = None,
    dsn: DsnOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Print versions, sizes by table, parts, what waits to be worked out, who leads and how the jobs last did."""
    address, state_dir = which_database(config, dsn)
    from tidegate.cli.db_view import as_data, as_text
    from tidegate.runtime.clock import clock_from_environment
    from tidegate.store.inventory import inventory
    from tidegate.store.opening import visited

    with visited(address, state_dir) as database:
        found = inventory(database, clock_from_environment().now())
    if as_json:
        typer.echo(json.dumps(as_data(database.place, found, embedded=address is None), indent=2))
    else:
        for line in as_text(database.place, found, embedded=address is None):
            typer.echo(line)


def which_database(config: Path | None, dsn: str | None) -> tuple[str | None, Path]:
    """The database's address, None for the embedded one, and the state folder."""
    from tidegate.config.load import load
    from tidegate.config.settings import EMBEDDED

    if (config is None) == (dsn is None):
        raise ConfigError("say which database: --config FILE or --dsn ADDRESS")
    if dsn is not None:
        return dsn, Path()
    assert config is not None  # noqa: S101 - one of the two is given
    controller = load(config).controller
    return None if controller.database == EMBEDDED else controller.database, controller.state_dir
