"""`tidegate db`: bring the database's tables up to date, and see what lies in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.runtime.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.store.database import Place
    from tidegate.store.inventory import Inventory

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
    """Print where the database is, its versions, its size and the reports by day."""
    address, state_dir = which_database(config, dsn)
    from tidegate.store.inventory import inventory
    from tidegate.store.opening import visited

    with visited(address, state_dir) as database:
        found = inventory(database)
    if as_json:
        typer.echo(json.dumps(_as_data(database.place, found, embedded=address is None), indent=2))
    else:
        for line in _as_text(database.place, found, embedded=address is None):
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


def _as_data(place: Place, found: Inventory, *, embedded: bool) -> dict[str, Any]:
    return {
        "host": place.host,
        "database": place.database,
        "embedded": embedded,
        "server_version": found.server_version,
        "revision": found.revisions.current,
        "head": found.revisions.head,
        "up_to_date": found.revisions.up_to_date,
        "size_bytes": found.size_bytes,
        "reports": sum(day.rows for day in found.partitions),
        "partitions": [
            {
                "name": day.name,
                "rows": day.rows,
                "size_bytes": day.size_bytes,
                "first": day.first.isoformat() if day.first else None,
                "last": day.last.isoformat() if day.last else None,
            }
            for day in found.partitions
        ],
    }


def _as_text(place: Place, found: Inventory, *, embedded: bool) -> Iterator[str]:
    stands = found.revisions
    yield f"database   {place}{' (embedded)' if embedded else ''}, Postgres {found.server_version}"
    yield f"revision   {_revision(stands.current, stands.head)}"
    yield f"size       {_size(found.size_bytes)}"
    yield f"reports    {sum(day.rows for day in found.partitions)} in {len(found.partitions)} days"
    for day in found.partitions:
        span = f"{day.first:%H:%M:%S} to {day.last:%H:%M:%S} UTC" if day.first and day.last else "empty"
        yield f"  {day.name}  {day.rows} rows, {_size(day.size_bytes)}, {span}"


def _revision(current: str | None, head: str) -> str:
    if current == head:
        return f"{current}, up to date"
    return f"{current or 'none: no tables yet'}; this version needs {head}: run `tidegate db migrate --config FILE`"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
