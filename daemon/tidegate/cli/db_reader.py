"""`tidegate db reader`: a role that may read the views and nothing else, and what Grafana wants to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.db import ConfigOption, DsnOption, which_database
from tidegate.runtime.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.store.readers import Reader

_ROLE = "tidegate_reader"
_PORT = 5432


def reader(
    config: ConfigOption = None,
    dsn: DsnOption = None,
    role: Annotated[str, typer.Option("--role", help="The role's name.")] = _ROLE,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=1024,
            max=65535,
            help="The embedded database's port on 127.0.0.1 (default 5432, or what was chosen before).",
        ),
    ] = None,
    rotate: Annotated[bool, typer.Option("--rotate", help="Give it another password.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Drop the role, and close the port.")] = False,
) -> None:
    """Make a read-only role for Grafana and print its data source. Safe to run again."""
    address, state_dir = which_database(config, dsn)
    if address is not None and port is not None:
        raise ConfigError("--port is the embedded database's; the port of one of your own stands in its address")
    lines = _remove(address, state_dir, role) if remove else _make(address, state_dir, role, port, rotate=rotate)
    for line in lines:
        typer.echo(line)


def _make(address: str | None, state_dir: Path, role: str, port: int | None, *, rotate: bool) -> Iterator[str]:
    from tidegate.store.opening import visited
    from tidegate.store.readers import ensure_reader

    embedded = address is None
    chosen = _free_port(state_dir, port) if embedded else 0  # before there is a password that could be lost
    with visited(address, state_dir) as database:
        made, place = ensure_reader(database, role, rotate=rotate), database.place
    note = _open(state_dir, chosen, role) if embedded else ""
    where = f"127.0.0.1:{chosen}" if embedded else f"{place.host}:{place.port}"
    yield from _data_source(made, where, place.database, "disable" if embedded else "require, or disable without TLS")
    if note:
        yield note


def _free_port(state_dir: Path, port: int | None) -> int:
    """The port to open: the one asked for, the one of before, or the usual one; raises ConfigError when taken."""
    from tidegate.store.embedded import EmbeddedPostgres
    from tidegate.store.embedded_door import ADDRESS, is_free, read_door

    server = EmbeddedPostgres(state_dir, owner=False)
    before = read_door(server.home)
    chosen = port or (before.port if before else _PORT)
    if server.listens() != chosen and not is_free(chosen):
        raise ConfigError(f"port {chosen} of {ADDRESS} is taken by another program: choose one with --port")
    return chosen


def _open(state_dir: Path, port: int, role: str) -> str:
    """Have the database open the port at its next start; returns what the operator still has to do."""
    from tidegate.store.embedded import EmbeddedPostgres
    from tidegate.store.embedded_door import Door, read_door, write_door

    server = EmbeddedPostgres(state_dir, owner=False)
    before = read_door(server.home)
    if before != Door(port, role):
        write_door(server.home, Door(port, role))
    if not server.alive():
        return "The port opens when the controller starts."
    if before == Door(port, role) and server.listens() == port:
        return ""
    return "The port opens when the controller is started again (systemctl restart tidegate-controller)."


def _remove(address: str | None, state_dir: Path, role: str) -> Iterator[str]:
    from tidegate.store.embedded import EmbeddedPostgres
    from tidegate.store.embedded_door import remove_door
    from tidegate.store.opening import visited
    from tidegate.store.readers import remove_reader

    with visited(address, state_dir) as database:
        gone = remove_reader(database, role)
    yield f"role {role} {'dropped' if gone else 'was not there'}"
    if address is None:
        server = EmbeddedPostgres(state_dir, owner=False)
        remove_door(server.home)
        if server.listens() is not None:
            yield "The port closes when the controller is started again; nobody may log in over it now."


def _data_source(made: Reader, where: str, database: str, tls: str) -> Iterator[str]:
    yield f"role {made.role} may read {len(made.views)} views: {', '.join(made.views)}"
    yield ""
    yield "Grafana, data source PostgreSQL:"
    yield f"  Host URL       {where}"
    yield f"  Database name  {database}"
    yield f"  Username       {made.role}"
    if made.password is None:
        yield "  Password       as it was given out (--rotate makes another)"
    else:
        yield f"  Password       {made.password}"
    yield f"  TLS/SSL Mode   {tls}"
    yield "  Version        15"
    if made.password is not None:
        yield ""
        yield "The password is shown this once: it is stored nowhere."
