"""`tidegate user`: who may look at the controller and command it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tidegate.cli.remote import DEFAULT_URL, ControllerOption, TokenOption, operator_client

app = typer.Typer(help="Add the people and programs that command the controller.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Add the people and programs that command the controller."""


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The user's name; it stands in the log of commands.")],
    role: Annotated[
        Literal["viewer", "operator"], typer.Option(help="A viewer looks, an operator commands.")
    ] = "viewer",
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Add a user, or give one another token and role; prints the token, this once."""
    from tidegate.link.messages import Role

    answer = operator_client(controller, token_file).user(name, Role(role))
    typer.echo(f"user {answer.name} {answer.done}", err=True)
    typer.echo(answer.token)
