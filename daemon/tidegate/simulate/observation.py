"""What a planner is shown and what it answers: the values of `tidegate plan --stdio`, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Signals:
    """What an engine's `/metrics` tell of the last window; None is missing, never zero."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    prompt_tps: float | None = None
    """Prompt tokens per second, those from the cache included, counted when a prefill ends."""
    generation_tps: float | None = None
    ttft_p95_s: float | None = None
    tpot_p95_s: float | None = None
    request_rate: float | None = None
    """Finished requests per second."""
    cached_tps: float | None = None
    gpu_utilization: float | None = None


@dataclass(frozen=True, slots=True)
class SeenReplica:
    """One replica as observed: `starting`, `ready`, `draining` or `failed` (with `why`)."""

    id: str
    state: str
    since: float
    signals: Signals | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class SeenPool:
    """A pool with its bounds."""

    kind: str
    min: int
    max: int
    gpus_per_replica: int
    price_per_hour: float
    """Of one replica."""
    replicas: tuple[SeenReplica, ...]
    role: str = "mixed"

    def in_state(self, *states: str) -> tuple[SeenReplica, ...]:
        """Its replicas in one of the states."""
        return tuple(replica for replica in self.replicas if replica.state in states)


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a planner may look at in one tick."""

    now: float
    ttft_s: float
    tpot_s: float
    gateway_waiting: int | None
    arrival_rps: float | None
    pools: Mapping[str, SeenPool]
    budget_gpus: int | None = None

    def replicas(self, *states: str) -> tuple[SeenReplica, ...]:
        """Replicas of all pools in one of the states."""
        return tuple(replica for pool in self.pools.values() for replica in pool.in_state(*states))

    def as_json(self) -> dict[str, Any]:
        """The observation as `plan --stdio` reads it."""
        shown: dict[str, Any] = {
            "now": self.now,
            "slo": {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s},
            "gateway": {"waiting": self.gateway_waiting, "arrival_rps": self.arrival_rps},
            "pools": {name: _pool_json(pool) for name, pool in self.pools.items()},
        }
        if self.budget_gpus is not None:
            shown["budget"] = {"gpus": self.budget_gpus}
        return shown


def _pool_json(pool: SeenPool) -> dict[str, Any]:
    shown = asdict(pool)
    for replica in shown["replicas"]:
        if not replica["why"]:
            del replica["why"]
    return shown


@dataclass(frozen=True, slots=True)
class PoolAnswer:
    """What one pool should be: starting and ready replicas, those to let go, those to take back from draining."""

    target: int
    victims: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()
    wanted: int | None = None
    reason: str = ""
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One tick's plan."""

    pools: Mapping[str, PoolAnswer] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Answer:
        """The plan in a line that `plan --stdio` answered."""
        pools = {
            name: PoolAnswer(
                target=pool["target"],
                victims=tuple(pool.get("victims", ())),
                uncordon=tuple(pool.get("uncordon", ())),
                wanted=pool.get("wanted"),
                reason=pool.get("reason", ""),
                limits=tuple(pool.get("limits", ())),
            )
            for name, pool in read["pools"].items()
        }
        return Answer(pools, tuple(read.get("reasons", ())))
