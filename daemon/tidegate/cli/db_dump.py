"""`tidegate db dump` and `restore`: everything in one file, and back into an empty database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.db import ConfigOption, DsnOption, which_database


def dump(
    file: Annotated[Path, typer.Argument(help="The file to write.", dir_okay=False)],
    config: ConfigOption = None,
    dsn: DsnOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write everything that Tidegate keeps into one file, as of one moment; nobody has to stop for it.

    Only Tidegate's own tables: roles, and what others put beside them, are not in it.
    """
    from tidegate.runtime.errors import ConfigError

    address, state_dir = which_database(config, dsn)
    if file.exists() and not force:
        raise ConfigError(f"{file} is there already: choose another name, or say --force")
    from tidegate.cli.progress import progress_bar
    from tidegate.runtime.clock import SystemClock
    from tidegate.store.dump import dump as write
    from tidegate.store.dump import size_of
    from tidegate.store.opening import visited

    with visited(address, state_dir) as database, progress_bar("dump", size_of(database)) as advance:
        done = write(database, file, SystemClock().now(), advance)
    size = file.stat().st_size
    typer.echo(f"{file}: {done.rows} rows of {done.tables} tables at revision {done.revision}, {size} bytes")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tidegate db dump` wrote.", exists=True, dir_okay=False)],
    config: ConfigOption = None,
    dsn: DsnOption = None,
) -> None:
    """Fill an empty database from a dump, an older revision's too; refuses one that has tables. Everything or nothing.

    Stop the controller first. An embedded database that is not empty can be put aside with its folder.
    """
    address, state_dir = which_database(config, dsn)
    from tidegate.cli.progress import progress_bar
    from tidegate.store.dump_format import reading
    from tidegate.store.opening import visited
    from tidegate.store.restore import restore as fill

    with reading(file) as found:
        size = found.manifest().size_bytes
    with visited(address, state_dir) as database, progress_bar("restore", size) as advance:
        done = fill(database, file, advance)
        place = database.place
    typer.echo(f"{place}: {done.rows} rows of {done.tables} tables restored from revision {done.revision}")


def upgrade(
    config: ConfigOption,
    old_programs: Annotated[
        Path | None,
        typer.Option("--old-programs", help="The `bin` folder of the old Postgres, where it is not found by itself."),
    ] = None,
) -> None:
    """Bring the embedded database to the installed Postgres; the old data is kept. Stop the controller first."""
    address, state_dir = which_database(config, None)
    from tidegate.runtime.errors import ConfigError

    if address is not None:
        raise ConfigError("this upgrades the embedded database only; a Postgres of your own has pg_upgrade")
    from tidegate.runtime.clock import SystemClock
    from tidegate.store.embedded_upgrade import upgrade as bring_up

    done = bring_up(state_dir, old_programs, SystemClock().now(), lambda step: typer.echo(f"{step} ...", err=True))
    if done is None:
        typer.echo("the embedded database has the installed version already")
        return
    rows = f", {done.done.rows} rows of {done.done.tables} tables" if done.done else ""
    typer.echo(f"brought from Postgres {done.old} to {done.new}{rows}")
    typer.echo(f"the old data is in {done.kept}: remove it when the controller has worked well for a while")
    typer.echo("a reader's role is not taken over: run `tidegate db reader` again if you have one")
