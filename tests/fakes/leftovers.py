"""Which processes are left of a program that has ended: those that carry its mark, or its folder in their command."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def processes_of(folder: Path, mark: str = "") -> dict[int, str]:
    """Living processes whose command line or working directory is in the folder, or whose environment has the mark."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (each / "environ").read_bytes().decode(errors="replace")
            here = (each / "cwd").readlink().is_relative_to(folder)
            dead = (each / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not dead and (str(folder) in command or here or (mark and mark in environment)):
                found[int(each.name)] = command
    return {pid: command for pid, command in found.items() if pid != os.getpid()}


def none_left(folder: Path, mark: str = "", seconds: float = 5.0) -> dict[int, str]:
    """What is still there once nothing is left or the time (real seconds) is over."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(folder, mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
