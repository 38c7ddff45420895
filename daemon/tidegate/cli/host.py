"""`tidegate host`: which hosts may report to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.remote import DEFAULT_URL, ControllerOption, TokenOption, operator_client

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.link.messages import HostAction

app = typer.Typer(help="Enroll hosts, give them new tokens, revoke them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The host's name, as `name` in its \\[agent] table.")]


@app.command()
def enroll(name: Name, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None) -> None:
    """Admit a host; prints its token, this once."""
    from tidegate.link.messages import HostAction

    _command(HostAction.ENROLL, name, controller, token_file)


@app.command()
def rotate(name: Name, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None) -> None:
    """Give a host a new token; prints it, this once. The old one stops working now."""
    from tidegate.link.messages import HostAction

    _command(HostAction.ROTATE, name, controller, token_file)


@app.command()
def revoke(name: Name, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None) -> None:
    """Refuse a host from now on; its replicas count no longer."""
    from tidegate.link.messages import HostAction

    _command(HostAction.REVOKE, name, controller, token_file)


@app.command("list")
def list_hosts(controller: ControllerOption = DEFAULT_URL) -> None:
    """Show every host that was ever enrolled."""
    for host in operator_client(controller, None).hosts():
        seen = host.last_seen.strftime("%Y-%m-%d %H:%M:%S UTC") if host.last_seen else "never seen"
        typer.echo(f"{host.name}\t{'revoked' if host.revoked else 'enrolled'}\t{seen}")


def _command(action: HostAction, name: str, controller: str, token_file: Path | None) -> None:
    answer = operator_client(controller, token_file).host(action, name)
    typer.echo(f"host {answer.name} {answer.done}", err=True)
    if answer.token:
        typer.echo(answer.token)
