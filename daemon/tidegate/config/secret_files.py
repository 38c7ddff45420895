"""Where secrets are read: files and the environment, never the configuration itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_LARGEST_BYTES = 64 * 1024


class Secrets(Protocol):
    """Reads secrets; None where they are deliberately not looked at."""

    def file(self, path: Path) -> str | None:
        """The file's text without blanks around it; raises OSError or UnicodeDecodeError."""
        ...

    def variable(self, name: str) -> str | None:
        """The variable's value; empty when it is not set."""
        ...


class SecretsHere:
    """The secrets of this machine."""

    def file(self, path: Path) -> str | None:
        """The file's text without blanks around it."""
        with path.open("rb") as file:
            return file.read(_LARGEST_BYTES).decode().strip()

    def variable(self, name: str) -> str | None:
        """The variable's value; empty when it is not set."""
        return os.environ.get(name, "")


class SecretsElsewhere:
    """For a check on a machine that has none of them: every secret is taken as there."""

    def file(self, path: Path) -> str | None:  # noqa: ARG002
        """Not looked at."""
        return None

    def variable(self, name: str) -> str | None:  # noqa: ARG002
        """Not looked at."""
        return None
