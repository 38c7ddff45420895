"""Read one configuration file into settings: the only door that both daemons and `config check` use."""

from __future__ import annotations

import socket
from pathlib import Path

from tidegate.config.document import read_document
from tidegate.config.meaning import interpret
from tidegate.config.secret_files import Secrets, SecretsHere
from tidegate.config.settings import Settings


def load(path: Path, secrets: Secrets | None = None) -> Settings:
    """The settings of the file; raises ConfigProblems (a ConfigError) that lists every problem with its line.

    Secrets come from this machine's files and environment unless another source is given.
    """
    return interpret(read_document(path), socket.gethostname(), secrets or SecretsHere())
