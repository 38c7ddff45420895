"""Simulated GPUs: what a host's GPU reader would say, derived from the engines that run on them.

Served as JSON in the form that an agent with `gpu_source = "http"` reads. A GPU is as busy as its engine was between
two readings; without an engine it idles. Power, heat and memory follow from that with the figures of a large card.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from threading import Lock

from tidegate.demo.pages import Answer
from tidegate.runtime.clock import Clock

NAME = "Simulated GPU 80GB"
DRIVER = "demo"
TOTAL_BYTES = 80 * 1024**3
ENGINE_SHARE = 0.9
"""An engine takes this share of the memory when it has loaded, whatever it serves (vLLM's default)."""
IDLE_WATTS, BUSY_WATTS = 70.0, 620.0
IDLE_CELSIUS, BUSY_CELSIUS = 33.0, 68.0
TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """A host of the demo: slot k runs on GPU k and listens on first_port + k."""

    name: str
    gpus: int
    first_port: int


@dataclass(frozen=True, slots=True)
class Work:
    """How long an engine has been busy at a moment (played seconds)."""

    at: float
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU between two readings."""

    at: float
    work: Work | None = None
    utilization: float = 0.0
    energy_joules: float = 0.0


def advance(state: GpuState, work: Work | None, now: float) -> GpuState:
    """The GPU's state now, given what its engine says (None: no engine answers)."""
    utilization = _share(state.work, work) if work else 0.0
    return GpuState(now, work, utilization, state.energy_joules + _watts(utilization) * max(0.0, now - state.at))


def _watts(utilization: float) -> float:
    return IDLE_WATTS + (BUSY_WATTS - IDLE_WATTS) * utilization


def _share(before: Work | None, after: Work) -> float:
    if before is None or after.at <= before.at:
        return 0.0
    return max(0.0, min(1.0, (after.busy_seconds - before.busy_seconds) / (after.at - before.at)))


def row(host: str, index: int, state: GpuState) -> dict[str, object]:
    """The GPU as the agent reads it."""
    return {
        "uuid": f"GPU-{host}-{index}",
        "index": index,
        "name": NAME,
        "up": True,
        "utilization": round(state.utilization, 4),
        "memory_used_bytes": TOTAL_BYTES * (ENGINE_SHARE if state.work else 0.005),
        "memory_total_bytes": TOTAL_BYTES,
        "power_watts": round(_watts(state.utilization), 1),
        "energy_joules": round(state.energy_joules, 1),
        "temperature_celsius": round(IDLE_CELSIUS + (BUSY_CELSIUS - IDLE_CELSIUS) * state.utilization, 1),
    }


class Gpus:
    """The page /gpus/HOST of every simulated host."""

    def __init__(self, clock: Clock, hosts: Sequence[SimulatedHost]) -> None:
        self._clock = clock
        self._hosts = {host.name: host for host in hosts}
        self._states: dict[tuple[str, int], GpuState] = {}
        self._lock = Lock()

    def page(self, path: str, _headers: Mapping[str, str], _body: bytes) -> Answer | None:
        """Answer for one host; None for a path that names none."""
        host = self._hosts.get(path.removeprefix("/gpus/"))
        if host is None:
            return None
        rows = [self._read(host, index) for index in range(host.gpus)]
        return 200, json.dumps({"driver": DRIVER, "gpus": rows}).encode()

    def _read(self, host: SimulatedHost, index: int) -> dict[str, object]:
        work = _ask(host.first_port + index)
        now = self._clock.now().timestamp()
        with self._lock:
            before = self._states.get((host.name, index), GpuState(now))
            state = self._states[host.name, index] = advance(before, work, now)
        return row(host.name, index, state)


def _ask(port: int) -> Work | None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/sim/busy")
        answer = json.loads(connection.getresponse().read())
        return Work(float(answer["at"]), float(answer["busy_seconds"]))
    except (OSError, HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
