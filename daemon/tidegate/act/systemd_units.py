"""Run units through systemd: `systemctl start|stop|show`, with an environment file for each unit."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate.act import proc
from tidegate.act.fill import fill, fill_environment, words
from tidegate.act.records import Records, UnitRecord, new_record
from tidegate.model.fleet import ReplicaState
from tidegate.model.target import UnitStatus
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.files import replace_file
from tidegate.wire import DesiredReplica

_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]*\.service")
_PROPERTIES = "LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,Job,ControlGroup"
_ALIVE = frozenset({"active", "activating", "deactivating", "reloading"})
_REFUSED = ("Access denied", "authentication required", "Permission denied")


@dataclass(frozen=True, slots=True)
class SystemdTemplate:
    """A unit's name with placeholders, such as "vllm@{slot}.service".

    The unit reads its variables by `EnvironmentFile=FOLDER/%n.env`.
    """

    unit: str
    environment: Mapping[str, str] = field(default_factory=dict)


class SystemdUnits:
    """Units of the kind "systemd". `folder` holds a record and an environment file of each."""

    def __init__(self, templates: Mapping[str, SystemdTemplate], folder: Path, clock: Clock) -> None:
        self._templates = templates
        self._records = Records(folder, "systemd")
        self._clock = clock
        self._boot = proc.boot_id()
        self._lock = threading.Lock()

    def use(self, templates: Mapping[str, SystemdTemplate]) -> None:
        """Start with these templates from now on; what runs is not touched."""
        self._templates = templates

    def knows(self, template: str) -> bool:
        """True when units of this template are of this kind."""
        return template in self._templates

    def start(self, replica: DesiredReplica) -> None:
        """Start the replica's unit unless it was started before; raises Transient or Permanent with the reason."""
        with self._lock:
            record = self._records.get(replica.replica_id)
            if record is not None and record.begun and record.stop_asked is None:
                return
            template = self._templates.get(replica.template)
            if template is None:
                raise Permanent(f"this host has no systemd template {replica.template!r}")
            unit = unit_name(template, replica)
            self._check_free(unit, replica.template)
            record = replace(new_record(replica, self._boot, self._clock.monotonic()), unit=unit)
            self._records.write(record)
            self._write_environment(unit, fill_environment(template.environment, replica))
            _systemctl("start", "--no-block", unit)
            self._records.write(replace(record, begun=True))

    def stop(self, replica_id: str, slot: int, template: str) -> None:  # noqa: ARG002 - the record knows both
        """Ask systemd to stop the unit (its TimeoutStopSec bounds it); forgets what has ended. Does not wait."""
        with self._lock:
            record = self._records.get(replica_id)
            if record is None:
                return
            if _alive(_show([record.unit])[0]):
                if record.stop_asked is None:
                    _systemctl("stop", "--no-block", record.unit)
                    self._records.write(replace(record, stop_asked=self._clock.monotonic()))
                return
            self._environment_path(record.unit).unlink(missing_ok=True)
            self._records.delete(replica_id)

    def statuses(self) -> Sequence[UnitStatus]:
        """Every unit that we started, those of an earlier agent too; raises Transient when systemd does not answer."""
        with self._lock:
            records = self._records.all()
            shown = _show([record.unit for record in records]) if records else []
            pairs = zip(records, shown, strict=True)
            return [
                replace(_status(record, seen), control_group=seen.get("ControlGroup", ""))
                for record, seen in pairs
                if self._begun(record, seen)
            ]

    def _begun(self, record: UnitRecord, properties: Mapping[str, str]) -> bool:
        """Settle a record that an agent wrote without living to note the start: its unit runs, or there is none."""
        if not record.begun and _alive(properties):
            self._records.write(replace(record, begun=True))
        elif not record.begun:
            self._records.delete(record.replica_id)
        return record.begun or _alive(properties)

    def _check_free(self, unit: str, template: str) -> None:
        properties = _show([unit])[0]
        if properties.get("LoadState") == "not-found":
            raise Permanent(
                f"template {template!r}: systemd knows no unit {unit}; install it, then `systemctl daemon-reload`"
            )
        if _alive(properties):
            raise Permanent(f"template {template!r}: {unit} already runs and is not ours; stop it or use another slot")

    def _environment_path(self, unit: str) -> Path:
        return self._records.folder / f"{unit}.env"

    def _write_environment(self, unit: str, environment: Mapping[str, str]) -> None:
        lines = "".join(f"{name}={_quoted(value)}\n" for name, value in environment.items())
        try:
            replace_file(self._environment_path(unit), lines.encode())
        except OSError as error:
            raise Transient(f"cannot write in {self._records.folder}: {error.strerror}") from error


def unit_name(template: SystemdTemplate, replica: DesiredReplica) -> str:
    """The unit of a replica; raises Permanent when what comes out is no service unit's name."""
    name = fill(template.unit, words(replica))
    if not _UNIT_NAME.fullmatch(name) or len(name) > 255:
        raise Permanent(f"template {replica.template!r}: {name!r} is no service unit's name; mend its `unit`")
    return name


def _quoted(value: str) -> str:
    """As systemd.exec(5) reads EnvironmentFile: double quotes, with a backslash before what is special in them."""
    return '"' + re.sub(r'([\\"`$])', r"\\\1", value) + '"'


def _status(record: UnitRecord, properties: Mapping[str, str]) -> UnitStatus:
    active = properties.get("ActiveState", "")
    waiting = properties.get("Job", "0") not in ("", "0")
    if record.stop_asked is not None:
        gone = not _alive(properties)
        return record.status(ReplicaState.STOPPED) if gone else record.status(ReplicaState.DRAINING, "told to stop")
    if active == "activating" or (waiting and active != "active"):
        return record.status(ReplicaState.BOOTING)
    if active in _ALIVE:
        return record.status(ReplicaState.LOADING)
    return record.status(ReplicaState.FAILED, _why_ended(record.unit, properties))


def _why_ended(unit: str, properties: Mapping[str, str]) -> str:
    if properties.get("LoadState") == "not-found":
        return f"systemd knows no unit {unit} any more"
    result = properties.get("Result", "")
    look = f"see `journalctl -u {unit}`"
    if properties.get("ActiveState") == "failed":
        return f"{unit} failed ({result}, status {properties.get('ExecMainStatus', '?')}); {look}"
    return f"{unit} is not running: it ended by itself or somebody stopped it; {look}"


def _alive(properties: Mapping[str, str]) -> bool:
    return properties.get("ActiveState") in _ALIVE or properties.get("Job", "0") not in ("", "0")


def _show(units: Sequence[str]) -> Sequence[Mapping[str, str]]:
    text = _systemctl("show", f"--property={_PROPERTIES}", *units)
    blocks = [block for block in text.split("\n\n") if block.strip()]
    if len(blocks) != len(units):
        raise Transient(f"systemctl show answered for {len(blocks)} units of {len(units)}")
    return [dict(line.partition("=")[::2] for line in block.strip().splitlines()) for block in blocks]


def _systemctl(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["systemctl", "--no-ask-password", *arguments],  # noqa: S607 - found on PATH, as an operator would
            capture_output=True,
            text=True,
            timeout=10.0,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise Permanent("this host has no systemctl; use templates of the kind `process`") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Transient(f"systemctl {arguments[0]} did not answer: {error}") from error
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    if any(word in done.stderr for word in _REFUSED):
        raise Permanent(
            f"systemctl {arguments[0]} {arguments[-1]}: {said}; let the agent manage the unit: "
            f"name it in tidegate-agent.rules (`tidegate units` prints it)"
        )
    raise Transient(f"systemctl {arguments[0]} {arguments[-1]}: {said}")
