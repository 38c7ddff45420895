"""Read /proc of this host, as far as the kernel lets us: what it hides is not there, and that is no error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from pathlib import Path

from tidegate.model.holders import HostProcess
from tidegate.observe.proc_text import Listener, command, listeners, process

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
_MOST_PROCESSES = 16_384
_MOST_DESCRIPTORS = 65_536
_COMMAND_BYTES = 64 * 1024


class HostProcesses:
    """The processes and listening sockets of this host; another root for tests."""

    def __init__(self, root: Path = _PROC, groups: Path = _GROUPS) -> None:
        self._root, self._groups = root, groups

    def listeners(self) -> list[Listener]:
        """Every listening TCP socket of this network namespace."""
        found: list[Listener] = []
        for name in ("tcp", "tcp6"):
            try:
                with (self._root / "net" / name).open(encoding="ascii", errors="replace") as lines:
                    found.extend(listeners(lines))
            except OSError:
                continue  # no IPv6 here
        return found

    def pids(self) -> list[int]:
        """Every process that we may see."""
        try:
            return [int(name) for name in os.listdir(self._root) if name.isdigit()][:_MOST_PROCESSES]  # noqa: PTH208
        except OSError:
            return []

    def command(self, pid: int) -> tuple[str, ...]:
        """Its command line; empty when there is none to see."""
        try:
            with (self._root / str(pid) / "cmdline").open("rb") as file:
                return command(file.read(_COMMAND_BYTES))
        except OSError:
            return ()

    def process(self, pid: int) -> HostProcess | None:
        """The process; None when it does not live or is hidden from us."""
        folder = self._root / str(pid)
        try:
            stat = (folder / "stat").read_text(errors="replace")
        except OSError:
            return None
        try:
            group = (folder / "cgroup").read_text(errors="replace")
        except OSError:
            group = ""
        return process(pid, stat, group)

    def sockets(self, pid: int) -> frozenset[int]:
        """The inodes of its sockets; empty where its descriptors are not for us to see."""
        folder = self._root / str(pid) / "fd"
        try:
            names = os.listdir(folder)[:_MOST_DESCRIPTORS]  # noqa: PTH208 - names alone, of which there may be many
        except OSError:
            return frozenset()
        return frozenset(inode for name in names if (inode := _socket_inode(folder / name)) is not None)

    def family(self, pids: Iterable[int]) -> dict[int, HostProcess]:
        """These processes and all their ancestors that can be seen."""
        known: dict[int, HostProcess] = {}
        for pid in pids:
            self._climb(pid, known)
        return known

    def _climb(self, pid: int, known: dict[int, HostProcess]) -> None:
        while pid > 1 and pid not in known:
            seen = self.process(pid)
            if seen is None:
                return
            known[pid] = seen
            pid = seen.parent

    def group_members(self, group: str) -> Set[int]:
        """Every pid in a control group and below it; readable by anybody."""
        top = self._groups / group.strip("/")
        if not group.strip("/") or ".." in top.parts:
            return frozenset()
        found: set[int] = set()
        for folder, _, files in os.walk(top):
            if "cgroup.procs" in files:
                found |= _pids_in(Path(folder) / "cgroup.procs")
        return found


def _pids_in(path: Path) -> set[int]:
    try:
        return {int(word) for word in path.read_text().split() if word.isdigit()}
    except OSError:
        return set()


def _socket_inode(path: Path) -> int | None:
    try:
        target = os.readlink(path)  # noqa: PTH115 - a text, not a path
    except OSError:
        return None
    if target.startswith("socket:[") and target.endswith("]") and target[8:-1].isdigit():
        return int(target[8:-1])
    return None
