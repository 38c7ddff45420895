"""Run units as plain processes: each in a session of its own, so that it outlives the agent and is found again."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from tidegate.act import proc
from tidegate.act.fill import fill_command, fill_environment
from tidegate.act.records import Records, UnitRecord, file_stem, new_record
from tidegate.act.unit_log import last_line, prune, shorten
from tidegate.model.fleet import ReplicaState
from tidegate.model.target import UnitStatus
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.wire import DesiredReplica

_MARK = "TIDEGATE_REPLICA_ID"
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM")
"""What systemd told the agent and must not reach an engine: it could report itself as the agent."""


@dataclass(frozen=True, slots=True)
class ProcessTemplate:
    """A command line with placeholders."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_timeout: timedelta = timedelta(seconds=30)
    """How long after SIGTERM a SIGKILL follows."""


class ProcessUnits:
    """Units of the kind "process". `folder` holds a record and a log file of each."""

    def __init__(self, templates: Mapping[str, ProcessTemplate], folder: Path, clock: Clock) -> None:
        self._templates = templates
        self._records = Records(folder, "process")
        self._clock = clock
        self._boot = proc.boot_id()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def use(self, templates: Mapping[str, ProcessTemplate]) -> None:
        """Start with these templates from now on; what runs is not touched."""
        self._templates = templates

    def knows(self, template: str) -> bool:
        """True when units of this template are of this kind."""
        return template in self._templates

    def start(self, replica: DesiredReplica) -> None:
        """Start the replica's process unless it was started before; raises Transient or Permanent with the reason."""
        with self._lock:
            record = self._records.get(replica.replica_id)
            if record is not None and record.begun and (record.stop_asked is None or self._living(record)):
                return
            template = self._templates.get(replica.template)
            if template is None:
                raise Permanent(f"this host has no process template {replica.template!r}")
            record = replace(
                new_record(replica, self._boot, self._clock.monotonic()),
                stop_timeout_seconds=template.stop_timeout.total_seconds(),
            )
            self._records.write(record)
            child = self._spawn(replica, template)
            self._children[replica.replica_id] = child
            process = proc.look(child.pid)
            ticks = process.ticks if process else 0
            self._records.write(replace(record, begun=True, pid=child.pid, ticks=ticks))

    def stop(self, replica_id: str, slot: int, template: str) -> None:  # noqa: ARG002 - the record knows both
        """SIGTERM to the process, SIGKILL to its whole session once the time-out is over; forgets what has ended.

        Does not wait: call again until the unit is gone.
        """
        with self._lock:
            record = self._records.get(replica_id)
            if record is None:
                return
            living = self._living(record)
            if living:
                self._press(record, living)
            else:
                self._children.pop(replica_id, None)
                self._records.delete(replica_id)
                prune(self._records.folder, {self._log_path(kept.replica_id) for kept in self._records.all()})

    def statuses(self) -> Sequence[UnitStatus]:
        """Every process that we started, those of an earlier agent too."""
        with self._lock:
            found = [self._status(record) for record in self._records.all()]
        return [status for status in found if status is not None]

    def _spawn(self, replica: DesiredReplica, template: ProcessTemplate) -> subprocess.Popen[bytes]:
        command = fill_command(template.command, replica)
        environment = _inherited() | fill_environment(template.environment, replica) | {_MARK: replica.replica_id}
        try:
            with self._log_path(replica.replica_id).open("ab") as log:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._records.folder,
                    env=environment,
                    start_new_session=True,
                )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            self._records.delete(replica.replica_id)
            raise Permanent(
                f"template {replica.template!r}: cannot run {command[0]!r}: {error.strerror}; mend its `command`"
            ) from error
        except OSError as error:
            raise Transient(f"template {replica.template!r}: cannot run {command[0]!r}: {error.strerror}") from error

    def _living(self, record: UnitRecord) -> Sequence[proc.Process]:
        """The processes of the unit: the leader alone while it lives, else what it left behind."""
        if record.boot != self._boot or not record.pid:
            return ()
        leader = proc.look(record.pid)
        if leader is not None and leader.ticks == record.ticks:
            return (leader,)
        # Reaped after the look, not before: one that ended in between would be dead without our knowing how.
        if (child := self._children.get(record.replica_id)) is not None:
            child.poll()
        return proc.session_of(record.pid, record.ticks)

    def _press(self, record: UnitRecord, living: Sequence[proc.Process]) -> None:
        now = self._clock.monotonic()
        leader_lives = any(process.pid == record.pid for process in living)
        if record.stop_asked is None:
            self._records.write(replace(record, stop_asked=now, members_asked=not leader_lives))
            proc.send(living, signal.SIGTERM)
        elif now - record.stop_asked >= record.stop_timeout_seconds:
            proc.send(proc.session_of(record.pid, record.ticks), signal.SIGKILL)
        elif not leader_lives and not record.members_asked:
            # A shell as leader dies of SIGTERM without passing it on.
            self._records.write(replace(record, members_asked=True))
            proc.send(living, signal.SIGTERM)

    def _status(self, record: UnitRecord) -> UnitStatus | None:
        if not record.begun:
            return self._find_again(record)
        living = self._living(record)
        shorten(self._log_path(record.replica_id))
        if living and record.stop_asked is not None:
            return record.status(ReplicaState.DRAINING, "told to stop")
        if any(process.pid == record.pid for process in living):
            return record.status(ReplicaState.LOADING)
        if record.stop_asked is not None:
            return record.status(ReplicaState.STOPPED)
        return record.status(ReplicaState.FAILED, self._why_ended(record, left_behind=len(living)))

    def _find_again(self, record: UnitRecord) -> UnitStatus | None:
        """An agent that died between writing the record and noting the pid left a process with its mark, or none."""
        process = proc.marked(_MARK, record.replica_id) if record.boot == self._boot else None
        if process is None:
            self._records.delete(record.replica_id)
            return None
        adopted = replace(record, begun=True, pid=process.pid, ticks=process.ticks)
        self._records.write(adopted)
        return adopted.status(ReplicaState.LOADING)

    def _why_ended(self, record: UnitRecord, left_behind: int) -> str:
        if record.boot != self._boot:
            return "the host was restarted"
        if not record.ended:
            child = self._children.get(record.replica_id)
            how = _how(child.returncode) if child is not None else "ended while no agent watched"
            record = replace(record, ended=f"{how} after {self._clock.monotonic() - record.began:.0f} s")
            self._records.write(record)
        log = self._log_path(record.replica_id)
        rest = f"; {left_behind} of its processes still live" if left_behind else ""
        said = last_line(log)
        return f"{record.ended}{rest}; {log} ends with: {said}" if said else f"{record.ended}{rest}; {log} is empty"

    def _log_path(self, replica_id: str) -> Path:
        return self._records.folder / f"{file_stem(replica_id)}.log"


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _how(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"exited with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (" (out of memory?)" if code == -signal.SIGKILL else "")
