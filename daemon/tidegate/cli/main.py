"""The command `tidegate`: mounts the groups; each imports its role only when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tidegate import __version__
from tidegate.cli import (
    agent,
    bill,
    config,
    controller,
    cost,
    dashboards,
    db,
    db_dump,
    db_reader,
    db_work,
    demo,
    engine,
    host,
    plan,
    pool,
    price,
    replay,
    simulate,
    units,
    user,
)
from tidegate.runtime.errors import EXIT_CONFIG, ConfigError, TidegateError

app = typer.Typer(
    name="tidegate",
    help="What a million tokens cost, and how many GPUs they need: agent, controller and tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_EXTRA = {"agent": "agent", "engine": "agent", "demo": "all"}
"""The extra with a command's libraries; the controller's for all others."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """What a million tokens cost, and how many GPUs they need: agent, controller and tools."""


app.command("agent")(agent.agent)
app.command("controller")(controller.controller)
app.command("cost")(cost.cost)
app.command("demo")(demo.demo)
app.command("plan")(plan.plan)
app.command("replay")(replay.replay)
app.command("simulate")(simulate.simulate)
app.add_typer(engine.app, name="engine", help="What Tidegate sees in an engine.")
app.add_typer(config.app, name="config")
app.add_typer(bill.app, name="bill")
app.add_typer(price.app, name="price")
app.add_typer(host.app, name="host")
app.add_typer(user.app, name="user")
app.add_typer(pool.app, name="pool")
db.app.command("reader")(db_reader.reader)
db.app.command("dump")(db_dump.dump)
db.app.command("restore")(db_dump.restore)
db.app.command("upgrade")(db_dump.upgrade)
db.app.command("prune")(db_work.prune)
db.app.command("backfill")(db_work.backfill)
db.app.command("export")(db_work.export)
app.add_typer(db.app, name="db")
app.command("dashboards")(dashboards.dashboards)
app.command("units")(units.units)


def main() -> None:
    """Run the command line; an explained error is one line on stderr, exit 78 for the configuration, else 1."""
    try:
        app()
    except ConfigError as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    except TidegateError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if _own(error):
            raise
        print(f"tidegate: {missing_library(error, sys.argv[1:])}", file=sys.stderr)
        sys.exit(1)


def missing_library(error: ModuleNotFoundError, arguments: Sequence[str]) -> str:
    """What is not installed, and how to install it: extras keep a database's drivers off the GPU hosts."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    extra = _EXTRA.get(command, "controller")
    return f"`tidegate {command}` needs {error.name}, which is not installed: pip install 'tidegate[{extra}]'"


def _own(error: ModuleNotFoundError) -> bool:
    """True for a module of ours, whose absence is a fault and not a missing extra."""
    return (error.name or "tidegate").partition(".")[0] == "tidegate"
