"""The fleet: service > pool > replica > GPU, as the controller sees it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from tidegate.model.reading import Gap, HostName, Missing

PoolName = NewType("PoolName", str)
ServiceName = NewType("ServiceName", str)
ReplicaId = NewType("ReplicaId", str)


class PoolKind(StrEnum):
    """Base carries the steady traffic, burst the peaks."""

    BASE = "base"
    BURST = "burst"


class PoolRole(StrEnum):
    """What the replicas of a pool do of a request."""

    MIXED = "mixed"
    PREFILL = "prefill"
    DECODE = "decode"


class ReplicaState(StrEnum):
    """Where a replica is in its life, as observed (never as requested)."""

    REQUESTED = "requested"
    BOOTING = "booting"
    LOADING = "loading"
    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


STARTING_STATES = frozenset({ReplicaState.REQUESTED, ReplicaState.BOOTING, ReplicaState.LOADING})
LEAVING_STATES = frozenset({ReplicaState.CORDONED, ReplicaState.DRAINING})


class Want(StrEnum):
    """What the controller wants of a replica."""

    RUN = "run"
    CORDON = "cordon"
    DRAIN = "drain"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Value:
    """A good signal: a number and how old it is."""

    value: float
    age: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Idle:
    """A signal that is known to be zero because nothing was asked of the replica."""

    age: timedelta = timedelta()


Signal = Value | Idle | Missing


class SignalName(StrEnum):
    """What a policy may look at in a replica."""

    RUNNING = "running"
    WAITING = "queue_depth"
    GPU_UTILIZATION = "gpu_utilization"
    KV_CACHE_USAGE = "kv_cache_usage"
    PROMPT_TOKENS = "prompt_tokens_per_second"
    """Prompt tokens taken in, those found in the cache included."""
    GENERATION_TOKENS = "generation_tokens_per_second"
    CACHED_TOKENS = "cached_tokens_per_second"
    """The part of the prompt tokens that the prefix cache saved."""
    REQUEST_RATE = "requests_per_second"
    TTFT_P95 = "ttft_p95"
    """Seconds, over the requests of the view window."""
    TPOT_P95 = "tpot_p95"
    """Seconds per output token after the first."""


class FailureClass(StrEnum):
    """Why a replica did not come to be; each has a back-off of its own."""

    QUOTA = "quota"
    SOLD_OUT = "sold_out"
    AUTHENTICATION = "authentication"
    IMAGE = "image"
    """The image or the model could not be loaded."""
    HEALTH = "health"
    """It came up and then failed, or never became healthy."""
    TIME_OUT = "time_out"
    """It missed its start deadline."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine instance and what is known of it now."""

    id: ReplicaId
    pool: PoolName
    host: HostName
    state: ReplicaState
    since: datetime
    """When it entered this state."""
    requested_at: datetime
    gpus: int
    slot: int | None = None
    """Its place on the host; None for an engine that the operator runs himself."""
    managed: bool = True
    """False when Tidegate did not start it and so may not stop it."""
    deadline: datetime | None = None
    """When a starting replica is given up, or a draining one is stopped regardless."""
    want: Want | None = None
    """What it was last asked to be, where known: a command counts before the host has shown it."""
    why: str = ""
    """What the host says of its state, in words."""
    failure: FailureClass | None = None
    """Of a failed replica, where its actuator can tell; None: the words of `why` are looked at instead."""
    flavour: str = ""
    """The flavour it was started as; empty: its pool's first."""
    signals: Mapping[SignalName, Signal] = field(default_factory=dict)

    def signal(self, name: SignalName) -> Signal:
        """The signal, or `Missing(NOT_REPORTED)`."""
        return self.signals.get(name, Missing(Gap.NOT_REPORTED))


@dataclass(frozen=True, slots=True)
class Slot:
    """A free place for one replica: which host, which GPUs, which port."""

    host: HostName
    slot: int
    gpus: tuple[int, ...]
    port: int
    flavour: str = ""
    """Which flavour of the pool would start here; empty: the pool's first."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as observed: its replicas (stopped ones left out) and where a new one could go, in order of preference."""

    name: PoolName
    replicas: tuple[Replica, ...]
    free_slots: tuple[Slot, ...] = ()


_NOT_REPORTED = Missing(Gap.NOT_REPORTED)


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the front door of a service says: the only witness of requests that no replica has taken."""

    waiting: Signal = _NOT_REPORTED
    """Requests that wait for a replica."""
    arrival_rate: Signal = _NOT_REPORTED
    """Requests per second that come in."""


NO_GATEWAY = Gateway()


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything `plan` may look at."""

    at: datetime
    pools: Mapping[PoolName, PoolView]
    gateways: Mapping[ServiceName, Gateway] = field(default_factory=dict)
    external: Mapping[ServiceName, Signal] = field(default_factory=dict)
    """Replicas that another program asks for, for services under the `external` policy."""
