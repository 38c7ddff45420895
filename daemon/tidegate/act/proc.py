"""Look at processes through /proc: who lives, since when, and in whose session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_DEAD = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class Process:
    """One living process (zombies are not)."""

    pid: int
    session: int
    ticks: int
    """When it began, in clock ticks since the host's boot."""


def boot_id() -> str:
    """The kernel's name for this boot of the host."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def look(pid: int) -> Process | None:
    """The process of that pid; None when it does not live."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything, a parenthesis too: count from the last one (proc(5)).
    fields = text.rpartition(")")[2].split()
    # A main thread that ended before its others shows as a zombie: the process lives on, and nobody can reap it yet.
    dead = fields[0] in _DEAD and int(fields[17]) <= 1
    return None if dead else Process(pid, int(fields[3]), int(fields[19]))


def session_of(pid: int, ticks: int) -> Sequence[Process]:
    """Every living process of the session that process (pid, ticks) leads or led.

    While members live the kernel gives the number to nobody else; so another process under it says that all are gone.
    """
    leader = look(pid)
    if leader is not None and leader.ticks != ticks:
        return ()
    return [process for process in _all() if process.session == pid]


def marked(variable: str, value: str) -> Process | None:
    """The leader of the session whose environment carries VARIABLE=VALUE; None when no process of ours does."""
    mark = f"{variable}={value}".encode()
    for process in _all():
        if process.session != process.pid:
            continue
        with suppress(OSError):
            if mark in (_PROC / str(process.pid) / "environ").read_bytes().split(b"\0"):
                return process
    return None


def send(processes: Sequence[Process], number: signal.Signals) -> None:
    """Signal each process that is still the one meant."""
    for process in processes:
        if look(process.pid) == process:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _all() -> Iterator[Process]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            process = look(int(entry.name))
            if process is not None:
                yield process
