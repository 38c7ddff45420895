"""The postmaster as a process: how it is started, what its pid file says, whether it lives, how it is made to end."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.store.embedded_user import ServerUser

PID_FILE = "postmaster.pid"
_READY = "ready"
_RUN_SECONDS = 300


def run(user: ServerUser, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of Postgres to its end, as its user."""
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=_RUN_SECONDS, **_manners(user))


def launch(user: ServerUser, command: list[str], log: int) -> subprocess.Popen[bytes]:
    """Start the server as its user, apart from our terminal, its words going to the log's descriptor."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **_manners(user)
    )


def _manners(user: ServerUser) -> dict[str, Any]:
    """Nothing of our environment and working folder: no PGDATA, no locale, no folder that the user cannot enter."""
    manners: dict[str, Any] = {
        "cwd": "/",
        "umask": 0o077,
        "env": {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
    }
    if user.assumed:
        manners |= {"user": user.uid, "group": user.gid, "extra_groups": []}
    return manners


@dataclass(frozen=True, slots=True)
class PidFile:
    """The lines of `postmaster.pid` that we read (PostgreSQL's pidfile.h)."""

    pid: int
    socket_dir: Path | None
    ready: bool
    port: int = 5432
    listen: str = ""
    """The first address that it listens on; empty for none."""


def read_pid_file(data: Path) -> PidFile | None:
    """What the file says; None when there is none or it is being written."""
    try:
        lines = (data / PID_FILE).read_text(encoding="utf-8").splitlines()
        pid = abs(int(lines[0]))
    except (OSError, ValueError, IndexError):
        return None
    socket_dir = Path(lines[4]) if len(lines) > 4 and lines[4] else None
    return PidFile(
        pid,
        socket_dir,
        ready=len(lines) > 7 and lines[7].strip() == _READY,
        port=int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else 5432,
        listen=lines[5].strip() if len(lines) > 5 else "",
    )


def serves(pid: int, data: Path) -> bool:
    """True when the process lives and works in the data folder: no other process that came by the same number."""
    proc = Path("/proc")
    if not (proc / "self" / "cwd").exists():
        return _lives(pid)
    try:
        return (proc / str(pid) / "cwd").readlink() == data.resolve()
    except OSError:
        return False


def anyone_in(data: Path) -> bool:
    """True when any process works in the data folder: an orphaned backend still holds its shared memory."""
    folders = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return any(serves(int(entry.name), data) for entry in folders)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def end(pid: int, *, gently: bool) -> None:
    """Ask for a fast shutdown (transactions are undone, a checkpoint is written), or for an immediate one."""
    try:
        os.kill(pid, signal.SIGINT if gently else signal.SIGQUIT)
    except ProcessLookupError:
        return


def clear_stale_locks(data: Path, socket_dir: Path | None) -> None:
    """Remove lock files whose number now belongs to another program, as happens in containers, or to a zombie.

    Postgres itself removes the files of a dead process, and guards the shared memory of its orphans by them; it gives
    up only when the number lives, so only then, and when nobody works in the folder, do we step in.
    """
    if not Path("/proc/self/cwd").exists():
        return
    sockets = socket_dir.glob(".s.PGSQL.*.lock") if socket_dir else ()
    stale = [path for path in (data / PID_FILE, *sockets) if _is_held(path, data)]
    if stale and not anyone_in(data):
        for path in stale:
            path.unlink(missing_ok=True)


def _is_held(path: Path, data: Path) -> bool:
    """True when the lock file is of a server of these data and its number lives (PostgreSQL's pidfile.h)."""
    try:
        number, folder, *_ = path.read_text(encoding="utf-8").splitlines()
        return Path(folder).resolve() == data.resolve() and _lives(abs(int(number)))
    except (OSError, ValueError):
        return False
