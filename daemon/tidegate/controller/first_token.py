"""The first operator's token: written at the first start, so that somebody can enroll the first host."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import structlog

from tidegate.controller.ports import Users
from tidegate.runtime.errors import Permanent
from tidegate.runtime.files import replace_file
from tidegate.runtime.tokens import new_token, token_hash

_log = structlog.get_logger()

FILE_NAME = "operator.token"
USER = "operator"
_TOKEN = re.compile(r"tgu_[A-Za-z0-9_-]{43}")


def ensure_operator_token(state_dir: Path, users: Users, now: datetime) -> None:
    """Make sure that the token in STATE_DIR/operator.token works; a file that is absent is written (mode 0600).

    Only the token's hash is stored. Deleting the file and starting again gives another token, and the old one no
    longer works. Raises Permanent when the file cannot be read or written, or holds what is no token of ours: a short
    word that somebody wrote there would be a password that can be guessed.
    """
    path = state_dir / FILE_NAME
    try:
        token = path.read_bytes().decode(errors="replace").strip() if path.exists() else _write(path)
    except OSError as error:
        raise Permanent(
            f"{path} cannot be used: {error.strerror}; give the controller's user its state folder"
        ) from error
    if not _TOKEN.fullmatch(token):
        raise Permanent(f"{path} does not hold an operator's token; remove it and start again: a fresh one is written")
    if users.authenticate(token_hash(token)) is None:
        users.add(USER, "operator", token_hash(token), now)
        _log.info("operator token ready", file=str(path))


def _write(path: Path) -> str:
    """A fresh token, on disk before anybody can know of it."""
    token = new_token("tgu")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, f"{token}\n".encode())
    return token
