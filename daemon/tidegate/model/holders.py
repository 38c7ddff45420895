"""Which GPUs an engine holds, by the driver's list of processes and the host's tree of them. Pure."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from tidegate.model.reading import EngineName


@dataclass(frozen=True, slots=True)
class HostProcess:
    """One process as the kernel shows it."""

    pid: int
    parent: int
    session: int
    began: int
    """Clock ticks since the host's boot: with the pid it names a process for good."""
    group: str = ""
    """Its control group; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Holder:
    """What is known of an engine's processes."""

    owners: frozenset[int] = frozenset()
    """Those that listen on its port, or that were started as it."""
    members: frozenset[int] = frozenset()
    """All of its unit's control group, where it is a unit of ours."""


def gpus_held(
    holders: Mapping[EngineName, Holder],
    processes: Mapping[int, HostProcess],
    users: Mapping[int, Set[int]],
) -> dict[EngineName, tuple[int, ...]]:
    """The indices of the GPUs that each engine computes on; an engine of which nothing is known is absent.

    `users` are the computing pids by GPU index. A pid belongs to the engine whose unit it is in, else to that of its
    nearest ancestor that listens. Workers that are nobody's children (Ray starts them) are told by the session or the
    control group that they share with one engine alone.
    """
    found: dict[EngineName, set[int]] = {}
    left: dict[int, Set[int]] = {}
    for index, pids in users.items():
        for pid in pids:
            engine = _by_unit(pid, holders) or _by_descent(pid, holders, processes)
            if engine is not None:
                found.setdefault(engine, set()).add(index)
            else:
                left[index] = left.get(index, frozenset()) | {pid}
    apart = {name: holder for name, holder in holders.items() if name not in found}
    for name, marks in _own_marks(apart, holders, processes).items():
        for index, pids in left.items():
            if any(marks & _marks(processes.get(pid)) for pid in pids):
                found.setdefault(name, set()).add(index)
    return {name: tuple(sorted(indices)) for name, indices in found.items()}


def _by_unit(pid: int, holders: Mapping[EngineName, Holder]) -> EngineName | None:
    return next((name for name, holder in holders.items() if pid in holder.members), None)


def _by_descent(
    pid: int, holders: Mapping[EngineName, Holder], processes: Mapping[int, HostProcess]
) -> EngineName | None:
    for each in ancestry(pid, processes):
        owner = next((name for name, holder in holders.items() if each in holder.owners), None)
        if owner is not None:
            return owner
    return None


def ancestry(pid: int, processes: Mapping[int, HostProcess]) -> Iterator[int]:
    """The process, its parent and so on, as far as they are known; process 1 is everybody's and left out."""
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        yield pid
        seen.add(pid)
        process = processes.get(pid)
        if process is None:
            return
        pid = process.parent


def _own_marks(
    apart: Mapping[EngineName, Holder],
    holders: Mapping[EngineName, Holder],
    processes: Mapping[int, HostProcess],
) -> dict[EngineName, frozenset[tuple[str, str]]]:
    """The sessions and control groups of these engines' owners that no other engine is in."""
    of = {
        name: frozenset(mark for pid in holder.owners for mark in _marks(processes.get(pid)))
        for name, holder in holders.items()
    }
    shared = Tally(mark for marks in of.values() for mark in marks)
    return {name: frozenset(mark for mark in of[name] if shared[mark] == 1) for name in apart}


def _marks(process: HostProcess | None) -> frozenset[tuple[str, str]]:
    if process is None:
        return frozenset()
    marks = {("session", str(process.session))} if process.session > 1 else set()
    # A login's or the root's group holds everything that somebody started: only a service's or a container's tells.
    if process.group.endswith((".service", ".scope")) and "session-" not in process.group.rpartition("/")[2]:
        marks.add(("group", process.group))
    return frozenset(marks)
