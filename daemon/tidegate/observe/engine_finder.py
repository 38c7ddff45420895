"""Find engines among the processes of this host: by command line and listening socket, then by one look at the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget, Found
from tidegate.observe.engine_commands import EngineCommand, recognise
from tidegate.observe.host_processes import HostProcesses
from tidegate.observe.proc_text import Listener

_log = structlog.get_logger()

MOST_ENGINES = 64
_SILENT = frozenset({EngineState.UNREACHABLE, EngineState.HANGING, EngineState.STARTING, EngineState.TRUNCATED})
"""No word yet on what it is: asked again, after ever longer pauses."""
_FOREIGN = frozenset({EngineState.MALFORMED, EngineState.UNSUPPORTED})
"""Its page is no engine's: never asked again."""
_LONGEST_PAUSE = 32
"""Looks."""

Probe = Callable[[EngineTarget, datetime], EngineReading]


@dataclass(frozen=True, slots=True)
class _Seen:
    """An engine's process on its port, which a new process never shares."""

    pid: int
    began: int
    authority: str


@dataclass(slots=True)
class _Verdict:
    target: EngineTarget | None = None
    refused: bool = False
    silent_looks: int = 0
    pause: int = 0


@dataclass(slots=True)
class EngineFinder:
    """Remembers what it found out, so that no page is asked twice for what it is. For one thread."""

    host: HostProcesses
    probe: Probe
    _verdicts: dict[_Seen, _Verdict] = field(default_factory=dict)

    def look(self, now: datetime, taken: Set[int]) -> Found:
        """The engines that listen now; one on a port that is `taken` is left to who named it."""
        candidates = self._candidates(taken)
        problems = []
        if len(candidates) > MOST_ENGINES:
            problems.append(f"{len(candidates)} engines among the processes: the first {MOST_ENGINES} are read")
        chosen = dict(list(candidates.items())[:MOST_ENGINES])
        for gone in [seen for seen in self._verdicts if seen not in chosen]:
            del self._verdicts[gone]
        for seen, command in chosen.items():
            self._judge(seen, command, now)
        found = [verdict.target for verdict in self._verdicts.values() if verdict.target is not None]
        return Found(tuple(sorted(found, key=lambda target: target.name)), tuple(problems))

    def _candidates(self, taken: Set[int]) -> dict[_Seen, EngineCommand]:
        """Each recognised process that listens on the very port of its command line, once a port."""
        listening = self.host.listeners()
        found: dict[str, tuple[_Seen, EngineCommand]] = {}
        for pid in sorted(self.host.pids()):
            command = recognise(self.host.command(pid))
            if command is None or command.port in taken:
                continue
            own = _listener(listening, command.port, self.host.sockets(pid))
            process = self.host.process(pid) if own is not None else None
            if own is not None and process is not None:
                found.setdefault(own.authority, (_Seen(pid, process.began, own.authority), command))
        return dict(found.values())

    def _judge(self, seen: _Seen, command: EngineCommand, now: datetime) -> None:
        verdict = self._verdicts.setdefault(seen, _Verdict())
        if verdict.target is not None or verdict.refused:
            return
        if verdict.pause > 0:
            verdict.pause -= 1
            return
        for path in command.paths:
            target = _target(seen, command, path)
            state = self.probe(target, now).state
            if state is not EngineState.DISABLED:
                break
        if state in _SILENT:
            verdict.silent_looks += 1
            verdict.pause = min(2**verdict.silent_looks, _LONGEST_PAUSE)
        elif state in _FOREIGN:
            verdict.refused = True
            _log.info("process is no engine to read", pid=seen.pid, url=target.url, state=state.value)
        else:
            # One whose metrics are off, or that asks for a token, is worth showing as such.
            verdict.target = target
            _log.info("engine found", engine=target.name, pid=seen.pid, url=target.url, state=state.value)


def _listener(listening: Iterable[Listener], port: int, sockets: Set[int]) -> Listener | None:
    return next((each for each in listening if each.port == port and each.inode in sockets), None)


def _target(seen: _Seen, command: EngineCommand, path: str) -> EngineTarget:
    name = EngineName(f"{command.kind.value}-{command.port}")
    return EngineTarget(name, f"http://{seen.authority}{path}")
