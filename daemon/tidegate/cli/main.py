"""The command `tidegate`: mounts the groups; each imports its role only when it is asked for."""

from __future__ import annotations

import sys

import typer

from tidegate import __version__
from tidegate.cli import agent, config, controller, dashboards, db, demo, engine, host, units, user
from tidegate.runtime.errors import EXIT_CONFIG, ConfigError, TidegateError

app = typer.Typer(
    name="tidegate",
    help="What a million tokens cost, and how many GPUs they need: agent, controller and tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    _version(asked=version)


app.command("agent")(agent.agent)
app.command("controller")(controller.controller)
app.command("demo")(demo.demo)
app.add_typer(engine.app, name="engine", help="What Tidegate sees in an engine.")
app.add_typer(config.app, name="config")
app.add_typer(host.app, name="host")
app.add_typer(user.app, name="user")
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
