"""Secrets that systemd hands to a service (systemd.exec(5), LoadCredential=): named, not placed."""

from __future__ import annotations

from pathlib import Path

from tidegate.config.secret_files import Secrets

VARIABLE = "CREDENTIALS_DIRECTORY"
HOST_TOKEN = "agent.token"  # noqa: S105 - the name of a file
"""The credential that holds the host's token where `token_file` names nothing."""

_PREFIX = "credential:"
_FOLDER = "secret_"
"""The units of this package load a folder under the name `secret`: its files come as `secret_NAME`."""


class NoCredentials(OSError):  # noqa: N818 - named for what is missing
    """Nobody handed over credentials."""

    def __init__(self) -> None:
        super().__init__(2, "systemd hands it over to the unit alone; by hand, check with --skip-secrets")


def credential_name(written: Path) -> str | None:
    """The NAME of `credential:NAME`; None for an ordinary path."""
    text = str(written)
    return text.removeprefix(_PREFIX) if text.startswith(_PREFIX) else None


def read_credential(secrets: Secrets, name: str) -> str | None:
    """The credential's text, None where secrets are deliberately not looked at.

    Raises NoCredentials outside a unit, else OSError or UnicodeDecodeError.
    """
    folder = secrets.variable(VARIABLE)
    if folder is None:
        return None
    if not folder:
        raise NoCredentials
    if "/" in name or name in {"", ".", ".."}:
        raise FileNotFoundError(2, "that is no name of a credential")
    try:
        return secrets.file(Path(folder) / name)
    except FileNotFoundError:
        return secrets.file(Path(folder) / f"{_FOLDER}{name}")
