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


SOURCE = Path("/etc/tidegate/credentials")
"""Where the units of this package take them from; root reads them there by hand."""


class NoCredentials(OSError):  # noqa: N818 - named for what is missing
    """Nobody handed over credentials, and this user cannot read them where they lie."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, f"{why} in {SOURCE} (by hand, be root or check with --skip-secrets)")


def credential_name(written: Path) -> str | None:
    """The NAME of `credential:NAME`; None for an ordinary path."""
    text = str(written)
    return text.removeprefix(_PREFIX) if text.startswith(_PREFIX) else None


def read_credential(secrets: Secrets, name: str) -> str | None:
    """The credential's text, None where secrets are deliberately not looked at.

    Outside of a unit, a command by hand, it is read at its source. Raises OSError or UnicodeDecodeError.
    """
    folder = secrets.variable(VARIABLE)
    if folder is None:
        return None
    if "/" in name or name in {"", ".", ".."}:
        raise FileNotFoundError(2, "that is no name of a credential")
    if not folder:
        return _at_the_source(secrets, name)
    try:
        return secrets.file(Path(folder) / name)
    except FileNotFoundError:
        return secrets.file(Path(folder) / f"{_FOLDER}{name}")


def _at_the_source(secrets: Secrets, name: str) -> str | None:
    try:
        return secrets.file(SOURCE / name)
    except OSError as error:
        raise NoCredentials(error.errno or 2, error.strerror or "not readable") from error
