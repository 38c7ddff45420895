"""How commands reach the controller: the two options that they share, and where the token usually is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidegate.link.command_client import CommandClient
    from tidegate.link.operator_client import OperatorClient
    from tidegate.link.pool_client import PoolClient

DEFAULT_URL = "http://127.0.0.1:9092"
STATE_DIR = Path("/var/lib/tidegate")

ControllerOption = Annotated[
    str, typer.Option("--controller", envvar="TIDEGATE_CONTROLLER", metavar="URL", help="The controller's address.")
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="TIDEGATE_TOKEN_FILE",
        help="A file with an operator's token; on the controller's machine its own operator.token is found.",
    ),
]


def client(controller: str, token_file: Path | None) -> CommandClient:
    """A client with the token named, else the one that the controller wrote on this machine."""
    from tidegate.link.command_client import CommandClient

    return CommandClient(controller, token_file or _own_token())


def pool_client(controller: str, token_file: Path | None) -> PoolClient:
    """The same for the commands about pools."""
    from tidegate.link.pool_client import PoolClient

    return PoolClient(client(controller, token_file))


def operator_client(controller: str, token_file: Path | None) -> OperatorClient:
    """The same for the commands about hosts and users."""
    from tidegate.link.operator_client import OperatorClient

    return OperatorClient(client(controller, token_file))


def _own_token() -> Path:
    folder = Path(os.environ.get("STATE_DIRECTORY", "").partition(":")[0] or STATE_DIR)
    return folder / "operator.token"
