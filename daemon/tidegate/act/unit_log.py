"""The log files of process units: their last words, and a bound on their size and number."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_LARGEST_BYTES = 32 * 1024 * 1024
_KEPT = 20
_TAIL_BYTES = 4096
_LINE = 160
_SECRET = re.compile(
    r"(?P<key>"
    r"\b[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credential)s?[\"']?\s*[=:]\s*"
    r"|--[\w-]*(?:token|secret|password|key)\s+"
    r"|\bbearer\s+"
    r"|://[^/\s:@]*:(?=[^/\s@]*@)"
    r")(?:\"[^\"]*\"|'[^']*'|(?!\d+\b)[^\s\"',;@]+)"
    r"|\b(?:hf|sk|ghp|tgh|tgu)[_-][A-Za-z0-9_-]{12,}",
    re.IGNORECASE,
)
"""What follows a name that promises one (but a count, as in max_tokens=4096), a password in an address, a prefix."""


def last_line(path: Path) -> str:
    """The last line that says something, cut to 160 printable characters; empty when there is none.

    It is shown on pages that ask for no password, so what looks like a secret in it is not.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    for line in reversed(lines):
        words = "".join(character if character.isprintable() else " " for character in line).strip()
        if words:
            return _SECRET.sub(r"\g<key>***", words)[:_LINE]
    return ""


def shorten(path: Path) -> None:
    """Move a log beyond 32 MiB to `.log.1` (a line that is written meanwhile may be lost); a full disk is borne.

    Works because the process writes in append mode: after the cut it goes on at the new end.
    """
    with suppress(OSError):
        if path.stat().st_size > _LARGEST_BYTES:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            os.truncate(path, 0)


def prune(folder: Path, keep: Collection[Path]) -> None:
    """Keep the newest 20 logs and those of units that are still known."""
    with suppress(OSError):
        logs = [path for path in folder.glob("*.log") if path not in keep]
        logs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in logs[_KEPT:]:
            path.unlink(missing_ok=True)
            path.with_name(path.name + ".1").unlink(missing_ok=True)
