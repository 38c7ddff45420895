"""Start and end the demo's processes: each in a session of its own, each ended by its pid, none left behind.

Every child inherits one mark in its environment. What the children start themselves (engines that outlive their agent,
a database whose controller was killed) is found by that mark at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event

from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Permanent

MARK = "TIDEGATE_DEMO"
_STEP = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True)
class Child:
    """A process that the demo started, and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def alive(self) -> bool:
        """True while it runs."""
        return self.process.poll() is None

    def last_words(self) -> str:
        """The end of its output, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "nothing"

    def check(self) -> None:
        """Raise Permanent, with its last words, when it has ended by itself."""
        if not self.alive():
            code, words = self.process.returncode, self.last_words()
            raise Permanent(f"the demo's {self.name} ended with {code} and said: {words} ({self.log})")


def spawn(name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Child:
    """Start a process away from the terminal, so that Ctrl-C reaches the demo alone."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    return Child(name, process, log)


def end(children: Iterable[Child], patience: timedelta) -> None:
    """SIGTERM to all, SIGKILL to those that are still there once patience (real time) is over."""
    waiting = [child for child in children if child.alive()]
    for child in waiting:
        child.process.terminate()
    _wait(lambda: not any(child.alive() for child in waiting), patience)
    for child in waiting:
        if child.alive():
            child.process.kill()
        child.process.wait()


def marked(mark: str) -> list[int]:
    """The processes other than this one whose environment carries the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def databases(folder: Path) -> list[int]:
    """The Postgres servers whose data lie under the folder, by the lock files that they keep."""
    found = []
    for lock in folder.rglob("postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(lock.read_text().split()[0])
            if b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def sweep(mark: str, folder: Path, patience: timedelta) -> int:
    """End whatever of the demo still runs; returns how many processes there were."""

    def left() -> set[int]:
        return {pid for pid in (*marked(mark), *databases(folder)) if _runs(pid)}

    first = left()
    _signal(first, signal.SIGTERM)
    _wait(lambda: not left(), patience)
    _signal(left(), signal.SIGKILL)
    _wait(lambda: not left(), patience)
    return len(first)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _wait(done: Callable[[], bool], patience: timedelta) -> bool:
    clock, never, left = SystemClock(), Event(), patience
    while not done():
        if left <= timedelta():
            return False
        clock.wait(never, _STEP)
        left -= _STEP
    return True
