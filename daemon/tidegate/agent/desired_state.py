"""What the agent keeps on disk between rounds and lives: the last desired state and what became of each replica."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from tidegate.model.fleet import ReplicaState
from tidegate.runtime.errors import ConfigError, Transient
from tidegate.runtime.files import replace_file
from tidegate.wire import Desired, DesiredReplica

_log = structlog.get_logger()


class KeptReplica(BaseModel):
    """One replica of the desired state and what became of it. Times are UTC by the host's clock."""

    model_config = ConfigDict(frozen=True)

    replica: DesiredReplica
    """As last desired."""
    state: ReplicaState
    since: datetime
    """When it entered this state."""
    leaving_since: datetime | None = None
    """When it stopped being wanted as RUN; a router may still send for the template's drain grace after it."""
    started_at: datetime | None = None
    ready_at: datetime | None = None
    """When its engine first answered; None again once the unit is gone."""
    start_error: str = ""
    """Why it can never be started; it is not tried again."""
    cut_requests: int = 0
    """Requests that were in flight when it was told to stop."""
    why: str = ""


class Kept(BaseModel):
    """Everything that must survive the agent."""

    model_config = ConfigDict(frozen=True)

    desired: Desired | None = None
    replicas: Mapping[str, KeptReplica] = {}
    clock_offset_seconds: float = 0.0
    """The controller's clock minus ours: deadlines are told by the controller's."""


class KeptFile:
    """One file, replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Kept:
        """What was saved last; a file that makes no sense is set aside and said, and nothing is known then.

        Raises ConfigError when the file cannot be opened: an agent that ran as another user has left it.
        """
        try:
            return self._parsed(self._path.read_bytes())
        except FileNotFoundError:
            return Kept()
        except OSError as error:
            raise ConfigError(
                f"[agent] state_dir: {self._path} cannot be read ({error.strerror}); give it, and all that lies beside "
                f"it, to user {os.geteuid()}, or remove it"
            ) from error

    def _parsed(self, data: bytes) -> Kept:
        try:
            return Kept.model_validate_json(data)
        except ValidationError as error:
            aside = self._path.with_suffix(".unreadable")
            self._path.replace(aside)
            _log.error(
                "desired state unreadable",
                set_aside=str(aside),
                error=f"{error.error_count()} faults",
                consequence="units run on untouched until a controller says what it wants",
            )
            return Kept()

    def save(self, kept: Kept) -> None:
        """Replace the file; raises Transient when the disk does not take it."""
        try:
            replace_file(self._path, kept.model_dump_json().encode())
        except OSError as error:
            raise Transient(
                f"cannot write {self._path}: {error.strerror}; make room there, or give it to user {os.geteuid()}"
            ) from error
