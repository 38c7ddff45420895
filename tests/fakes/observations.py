"""Lines for the planner: observations as another scheduler would write them, and a world that obeys the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

JSON = dict[str, Any]


def signals(**changes: Any) -> JSON:
    """Of a replica at work."""
    found = {
        "running": 12,
        "waiting": 0,
        "kv_usage": 0.3,
        "prompt_tps": 2000.0,
        "generation_tps": 400.0,
        "ttft_p95_s": 0.6,
        "tpot_p95_s": 0.035,
        "request_rate": 2.0,
        "cached_tps": 0.0,
        "gpu_utilization": 0.8,
    }
    return {**found, **changes}


def replica(name: str | int, state: str = "ready", since: float = 0.0, **changes: Any) -> JSON:
    """One replica; a ready one is at work."""
    return {"id": name, "state": state, "since": since, "signals": signals() if state == "ready" else None, **changes}


def pool(*replicas: JSON, low: int = 0, high: int = 8, **changes: Any) -> JSON:
    """One pool of replicas on one GPU each."""
    made = {"role": "mixed", "min": low, "max": high, "gpus_per_replica": 1, "price_per_hour": 3.0}
    return {**made, "replicas": list(replicas), **changes}


def observation(now: float = 1000.0, pools: JSON | None = None, **changes: Any) -> JSON:
    """A base pool with two replicas at work and an empty burst pool."""
    made = {
        "now": now,
        "slo": {"ttft_s": 2.0, "tpot_s": 0.06},
        "gateway": {"waiting": 0, "arrival_rps": 4.0},
        "pools": pools or {"base": pool(replica("base-1"), replica("base-2"), low=2, high=4), "burst": pool()},
    }
    return {**made, **changes}


def line(found: Any) -> bytes:
    """As it comes through the pipe, without its end."""
    return json.dumps(found).encode()


@dataclass
class Tenant:
    """Another scheduler's world: it starts replicas under names of its own and does what the plan says."""

    low: int = 2
    high: int = 4
    burst: int = 8
    start_s: float = 60.0
    drain_s: float = 45.0
    carries: float = 4.0
    """Requests per second that a replica answers at its ease."""
    now: float = 1_700_000_000.0
    made: int = 0
    replicas: dict[str, list[JSON]] = field(default_factory=lambda: {"base": [], "burst": []})

    def __post_init__(self) -> None:
        for _ in range(self.low):
            self._start("base", state="ready")

    def _start(self, name: str, state: str = "starting") -> None:
        self.made += 1
        self.replicas[name].append({"id": f"node{self.made}", "state": state, "since": self.now, "signals": None})

    def observe(self, rate: float, seconds: float = 15.0) -> JSON:
        """Time passes under so many requests per second."""
        self.now += seconds
        for found in self.replicas.values():
            found[:] = [one for one in found if one["state"] != "draining" or self.now - one["since"] < self.drain_s]
            for one in found:
                if one["state"] == "starting" and self.now - one["since"] >= self.start_s:
                    one["state"], one["since"] = "ready", self.now
        ready = [one for found in self.replicas.values() for one in found if one["state"] == "ready"]
        for found in self.replicas.values():
            for one in found:
                one["signals"] = self._signals(rate / len(ready)) if one["state"] == "ready" else None
        pools = {
            "base": pool(*self.replicas["base"], low=self.low, high=self.high),
            "burst": pool(*self.replicas["burst"], high=self.burst, price_per_hour=5.0),
        }
        gateway = {"waiting": 0 if ready else rate * 15, "arrival_rps": rate}
        return observation(self.now, pools, gateway=gateway)

    def _signals(self, rate: float) -> JSON:
        used = rate / self.carries
        tpot = 0.02 / max(0.1, 1 - 0.66 * min(used, 1.3))
        waiting = max(0.0, (used - 1.0) * 40)
        return signals(
            running=rate * 200 * tpot,
            waiting=waiting,
            kv_usage=min(1.0, 0.5 * used),
            prompt_tps=rate * 1000,
            generation_tps=rate * 200,
            ttft_p95_s=0.4 + waiting / self.carries,
            tpot_p95_s=tpot,
            request_rate=min(rate, self.carries),
            gpu_utilization=min(1.0, used),
        )

    def obey(self, plan: JSON) -> None:
        """Victims leave, drained ones come back, and the rest is started."""
        for name, asked in plan["pools"].items():
            found = self.replicas[name]
            for one in found:
                if one["id"] in asked["victims"]:
                    one["state"], one["since"] = ("draining" if one["state"] == "ready" else "gone"), self.now
                elif one["id"] in asked["uncordon"]:
                    one["state"], one["since"] = "ready", self.now
            found[:] = [one for one in found if one["state"] != "gone"]
            for _ in range(asked["target"] - self.supply(name)):
                self._start(name)

    def supply(self, name: str) -> int:
        """Replicas that serve or will."""
        return sum(one["state"] in ("starting", "ready") for one in self.replicas[name])
