"""The messages between agent and controller, versioned; both roles import this one file.

JSON over HTTP. `POST /v1/report` takes a Batch and answers an Answer; `GET /v1/desired?after=REVISION` answers a
Desired (long poll, 204 when nothing changed). A report is unique by (host, boot_id, sequence).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.reading import HostName

WIRE_VERSION = 1
ACCEPTED_VERSIONS = (1,)
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_REPORTS = 500
MAX_SERIES = 20_000

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@/-]*$")]


Count = Annotated[int, Field(ge=0, lt=2**63)]
"""What a database's integer holds: a host cannot break what it is not trusted with."""
Gpus = Annotated[int, Field(ge=0, le=4096)]


class Message(BaseModel):
    """Frozen, and closed: an unknown key is an error, not a silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Layout(Message):
    """The series of a vector, in order: rows of [scope, owner, name, rank, le] (model/series.py)."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    series: Annotated[
        list[Annotated[list[Annotated[str, Field(max_length=256)]], Field(min_length=5, max_length=5)]],
        Field(max_length=MAX_SERIES),
    ]


class Report(Message):
    """One sampling time: a vector (model/vector.py) in the order of its layout; in JSON as base64."""

    model_config = ConfigDict(val_json_bytes="base64")

    boot_id: Annotated[str, Field(min_length=1, max_length=64)]
    sequence: Annotated[int, Field(ge=1, lt=2**63)]
    at: Annotated[float, Field(gt=0, lt=1e11)]
    """Unix seconds by the host's clock."""
    layout: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    values: Annotated[bytes, Field(strict=True)]
    """Read from its base64 by pydantic, six times as fast as by the standard library."""

    @field_validator("values")
    @classmethod
    def _whole_vector(cls, values: bytes) -> bytes:
        if len(values) % 8:
            raise ValueError(f"{len(values)} bytes are not a whole number of float64 values")
        return values

    @field_serializer("values", when_used="json")
    def _text(self, values: bytes) -> str:
        """In the standard alphabet, as every version reads it; pydantic's own is that for URLs."""
        return base64.b64encode(values).decode()


class GpuState(Message):
    """A GPU as inventory: what the placement and the status page need."""

    index: int
    uuid: str
    name: str = ""
    up: bool = True
    why: str = ""


class EngineStatus(Message):
    """A local engine as inventory."""

    name: Name
    url: str
    state: str
    """An EngineState."""
    kind: str = ""
    pool: str = ""
    service: str = ""
    model: str = ""
    gpus: Gpus = 1
    gpu_indices: list[Gpus] = []
    replica_id: str = ""
    """Set when the agent runs it for the controller; empty for an engine of the operator's own."""
    problems: list[str] = []


class ReplicaStatus(Message):
    """A unit that the agent runs for the controller."""

    replica_id: Name
    state: ReplicaState
    since: float
    in_flight: float | None = None
    """Running plus waiting requests; None when not known."""
    cut_requests: Count = 0
    """Requests in flight when a drain's deadline stopped it."""
    why: str = ""


class HostState(Message):
    """What the host is now; rides on a live report only, never on a spooled one."""

    gpus: list[GpuState] = []
    nvml_up: bool = False
    nvml_why: str = ""
    engines: list[EngineStatus] = []
    replicas: list[ReplicaStatus] = []
    desired_epoch: Count = 0
    desired_revision: Count = 0
    spool_reports: Count = 0
    spool_dropped: Count = 0
    agent_version: str = ""


class Batch(Message):
    """What an agent posts: reports (live first, backlog after) with the layouts that the controller may not know."""

    version: int = WIRE_VERSION
    host: Name
    sent_at: float
    layouts: Annotated[list[Layout], Field(max_length=64)] = []
    reports: Annotated[list[Report], Field(max_length=MAX_REPORTS)] = []
    state: HostState | None = None


class Range(Message):
    """Acknowledged sequence numbers, both ends included."""

    boot_id: str
    first: int
    last: int


class DesiredReplica(Message):
    """One replica that the host should have, and how."""

    replica_id: Name
    pool: Name
    service: str = ""
    template: str
    slot: int
    gpus: list[int]
    port: int
    want: Want
    deadline: float | None = None


class Desired(Message):
    """Everything the host should run; complete, so that what is not in it is not wanted."""

    epoch: int
    """The leader's term: an agent refuses a lower one."""
    revision: int
    replicas: list[DesiredReplica] = []


class Answer(Message):
    """What the controller answers to a batch."""

    version: int = WIRE_VERSION
    now: float
    acknowledged: list[Range] = []
    need_layouts: list[str] = []
    """Layouts that reports of this batch name and nobody knows: send them, and those reports again."""
    desired: Desired | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a batch's reports."""

    acknowledged: tuple[Range, ...]
    """Stored now or earlier: the agent may forget them."""
    need_layouts: tuple[str, ...]
    stored: int
    duplicates: int
    left_out: int = 0
    """Acknowledged and not kept: another source has the samples."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch that a host has sent."""

    host: HostName
    """Whose token came with it."""
    batch: Batch
    at: datetime
    """When it was read whole: what waits here for its turn was not sent later."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """Reports of one host that came together."""

    host: HostName
    layouts: Sequence[Layout]
    reports: Sequence[Report]
    received_at: datetime


@dataclass(frozen=True, slots=True)
class HostRecord:
    """An enrolled host and what it said last."""

    name: HostName
    last_seen: datetime | None
    state: HostState | None
    revoked: bool
