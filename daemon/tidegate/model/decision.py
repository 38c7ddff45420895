"""What `plan` answers: decisions that explain themselves, and actions that name what they touch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.model.fleet import PoolName, ReplicaId, Signal, Slot
from tidegate.model.memory import Memory
from tidegate.model.policy import Mode


class Limit(StrEnum):
    """A guard that bound a decision."""

    MIN = "min"
    MAX = "max"
    COOLDOWN = "cooldown"
    SCALE_IN_WINDOW = "scale_in_window"
    MISSING_DATA = "missing_data"
    RESTART_GRACE = "restart_grace"
    NO_CAPACITY = "no_capacity"
    UNMANAGED = "unmanaged"
    BASE_FIRST = "base_first"
    START_FAILED = "start_failed"
    MODE = "mode"
    BUDGET = "budget"
    STEP = "step"
    FLAP = "flap"
    SCHEDULE = "schedule"
    MANUAL = "manual"
    """An operator's own bounds."""
    PAUSED = "paused"
    PROOF = "proof"
    """One replica less would not meet the objective."""
    SLO_INFEASIBLE = "slo_infeasible"
    """The objective is missed by each request alone: more replicas would not mend it."""
    STUCK_QUEUE = "stuck_queue"
    """Requests wait although replicas have room: more replicas would not mend it."""
    RATIO = "ratio"
    HOLD = "hold"
    """A minimum hold or a paid hour that is not over."""
    FLAVOUR = "flavour"
    """A preferred flavour is passed over."""


@dataclass(frozen=True, slots=True)
class UsedSignal:
    """One input of a decision, kept with it: "queue_depth of burst-3 was 7, 4 s old"."""

    source: str
    name: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a pool has the target that it has."""

    pool: PoolName
    at: datetime
    current: int
    """Replicas that count as supply: ready and starting."""
    ready: int
    starting: int
    leaving: int
    wanted: int
    """What the policy asked for before any guard."""
    target: int
    reason: str
    """One English sentence with its numbers."""
    limits: tuple[Limit, ...]
    signals: tuple[UsedSignal, ...]
    mode: Mode
    may_change_at: datetime | None
    """The earliest moment at which a guard in force lets go; None when nothing holds it."""


class ActionKind(StrEnum):
    """What is done to one replica."""

    START = "start"
    DRAIN = "drain"
    CANCEL = "cancel"
    """Stop a replica that was never ready."""
    RESUME = "resume"
    """Take a leaving replica back."""
    GIVE_UP = "give_up"
    """Stop a replica that missed its start deadline."""


@dataclass(frozen=True, slots=True)
class Action:
    """One idempotent step: a replica id and what it should be, never "add one"."""

    kind: ActionKind
    replica: ReplicaId
    pool: PoolName
    slot: Slot | None = None
    """Where a START goes."""
    deadline: datetime | None = None
    """When a START is given up or a DRAIN is cut short."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer: what, why, and what to remember."""

    decisions: tuple[Decision, ...]
    actions: tuple[Action, ...]
    memory: Memory
