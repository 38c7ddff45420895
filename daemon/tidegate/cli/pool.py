"""`tidegate pool`: why each pool has its size, and how to hold it."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from tidegate.cli.remote import DEFAULT_URL, ControllerOption, TokenOption, pool_client

app = typer.Typer(help="Why each pool has the size that it has, and how to hold it.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The pool's name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="How long, such as 90s, 30m, 2h or 1d; then it ends by itself."),
]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@app.command("list")
def list_pools(controller: ControllerOption = DEFAULT_URL, as_json: Json = False) -> None:
    """Show every pool: size, target, and what bounds it."""
    from tidegate.cli.pool_view import table

    pools = pool_client(controller, None).pools()
    if as_json:
        typer.echo("[" + ",\n ".join(pool.model_dump_json() for pool in pools) + "]")
    else:
        typer.echo("\n".join(table(pools)))


@app.command()
def explain(name: Name, controller: ControllerOption = DEFAULT_URL, as_json: Json = False) -> None:
    """Say why a pool has its size: signals with their age, limits, what was learned, when it may change."""
    from tidegate.cli.pool_view import explanation

    found = pool_client(controller, None).pool(name)
    typer.echo(found.model_dump_json(indent=2) if as_json else "\n".join(explanation(found)))


@app.command()
def pause(
    name: Name,
    shrinking: Annotated[bool, typer.Option("--in", help="Only from shrinking.")] = False,
    growing: Annotated[bool, typer.Option("--out", help="Only from growing.")] = False,
    duration: For = None,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Keep a pool's size; it is still looked at, decided and shown. Without --in and --out: from both."""
    from tidegate.link.pool_messages import PauseCommand

    both = shrinking == growing
    command = PauseCommand(growing=growing or both, shrinking=shrinking or both, for_seconds=seconds(duration))
    typer.echo(pool_client(controller, token_file).pause(name, command))


@app.command()
def resume(name: Name, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None) -> None:
    """End a pool's pauses."""
    typer.echo(pool_client(controller, token_file).resume(name))


@app.command()
def bounds(
    name: Name,
    low: Annotated[int | None, typer.Option("--min", min=0, max=10_000, help="At least so many replicas.")] = None,
    high: Annotated[int | None, typer.Option("--max", min=0, max=10_000, help="At most so many replicas.")] = None,
    duration: For = None,
    clear: Annotated[bool, typer.Option("--clear", help="Give it its configured bounds again.")] = False,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Give a pool other bounds for a time."""
    from tidegate.link.pool_messages import BoundsCommand

    span = seconds(duration)
    if clear:
        if (low, high, span) != (None, None, None):
            raise typer.BadParameter("--clear gives it its configured bounds: leave --min, --max and --for out")
        typer.echo(pool_client(controller, token_file).bounds(name, None))
        return
    if span is None or (low is None and high is None):
        raise typer.BadParameter("say --min or --max, and --for how long (or --clear)")
    command = BoundsCommand(min=low, max=high, for_seconds=span)
    typer.echo(pool_client(controller, token_file).bounds(name, command))


@app.command()
def mode(
    mode: Annotated[str, typer.Argument(help="advise, act, paused; or configured, to go back to the file's.")],
    duration: For = None,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Set what becomes of decisions in the whole fleet."""
    from tidegate.link.pool_messages import ModeCommand
    from tidegate.model.policy import Mode

    if mode not in {*Mode, "configured"}:
        raise typer.BadParameter(f"must be one of {', '.join(Mode)}, configured")
    if mode == "configured" and duration is not None:
        raise typer.BadParameter("the configured mode holds for good: leave --for out")
    command = ModeCommand(mode=None if mode == "configured" else Mode(mode), for_seconds=seconds(duration))
    typer.echo(pool_client(controller, token_file).mode(command))


@app.command()
def wish(
    service: Annotated[str, typer.Argument(help="A service under the policy `external`.")],
    replicas: Annotated[int, typer.Argument(min=0, max=10_000, help="How many replicas it should have.")],
    duration: For = None,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Wish for a size in place of the program that usually does; bounds, budget and guards still hold."""
    from tidegate.link.pool_messages import WishCommand

    command = WishCommand(replicas=replicas, for_seconds=seconds(duration))
    typer.echo(pool_client(controller, token_file).wish(service, command))


def seconds(duration: str | None) -> float | None:
    """A length of time as people write it; raises BadParameter."""
    if duration is None:
        return None
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", duration)
    span = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < span <= 366 * _UNITS["d"]:
        raise typer.BadParameter(f"--for {duration}: write a number and s, m, h or d, such as 90s or 2h; at most 366d")
    return span
