"""What is written down of every unit that we started, so that a restarted agent knows its own again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import structlog

from tidegate.model.fleet import ReplicaState
from tidegate.model.target import UnitStatus
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.files import replace_file
from tidegate.wire import DesiredReplica

_log = structlog.get_logger()
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """One unit of ours. Moments are the clock's monotonic seconds, which hold within one boot of the host."""

    replica_id: str
    template: str
    slot: int
    gpus: tuple[int, ...]
    boot: str
    """The host's boot: a record of another one tells of a unit that cannot live any more."""
    began: float
    begun: bool = False
    """False between writing the record and having started the unit: a crash in between is found by it."""
    pid: int = 0
    ticks: int = 0
    """When the process began, in ticks since the boot: with the pid it names a process once and for all."""
    unit: str = ""
    stop_timeout_seconds: float = 30.0
    stop_asked: float | None = None
    members_asked: bool = False
    """The leader was gone and the rest of its session has been asked to end too."""
    ended: str = ""
    """How the main process ended, once that is known."""

    def status(self, state: ReplicaState, why: str = "") -> UnitStatus:
        """The record as the agent's port reports it."""
        return UnitStatus(self.replica_id, state, why, self.template, self.slot, self.gpus, main_pid=self.pid)


def new_record(replica: DesiredReplica, boot: str, began: float) -> UnitRecord:
    """A record of a unit that is about to be started."""
    return UnitRecord(replica.replica_id, replica.template, replica.slot, tuple(replica.gpus), boot, began)


def file_stem(replica_id: str) -> str:
    """A file name for a replica id that cannot leave its folder; raises Permanent when the id is too long for one."""
    stem = quote(replica_id, safe="@:")
    if len(stem) > _LONGEST_NAME:
        raise Permanent(f"replica id {replica_id[:40]}... is longer than a file name may be; shorten the pool's name")
    return stem


class Records:
    """A folder of records, one file each, replaced atomically."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self._suffix = f".{kind}.json"

    def all(self) -> Sequence[UnitRecord]:
        """Every record by name; one that cannot be read is set aside and said."""
        found = (self._read(path) for path in sorted(self.folder.glob(f"*{self._suffix}")))
        return [record for record in found if record is not None]

    def get(self, replica_id: str) -> UnitRecord | None:
        """The record of a replica; None when there is none."""
        path = self._path(replica_id)
        return self._read(path) if path.exists() else None

    def write(self, record: UnitRecord) -> None:
        """Put the record on disk; raises Transient when the disk does not take it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._path(record.replica_id), json.dumps(asdict(record)).encode())
        except OSError as error:
            raise Transient(f"cannot write in {self.folder}: {error.strerror}; the unit stays as it is") from error

    def delete(self, replica_id: str) -> None:
        """Forget the replica."""
        self._path(replica_id).unlink(missing_ok=True)

    def _path(self, replica_id: str) -> Path:
        return self.folder / (file_stem(replica_id) + self._suffix)

    def _read(self, path: Path) -> UnitRecord | None:
        try:
            return _record(json.loads(path.read_bytes()))
        except (ValueError, TypeError, KeyError) as error:
            aside = path.with_suffix(".unreadable")
            path.replace(aside)
            _log.error("unit record unreadable", set_aside=str(aside), error=str(error))
        except OSError as error:
            raise Transient(f"cannot read {path}: {error.strerror}") from error
        return None


def _record(data: Mapping[str, object]) -> UnitRecord:
    gpus = data["gpus"]
    if not isinstance(gpus, list):
        raise TypeError("gpus is not a list")
    return UnitRecord(**{**data, "gpus": tuple(gpus)})  # type: ignore[arg-type]
