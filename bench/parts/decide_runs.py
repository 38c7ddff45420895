"""Runs of the simulator by name, in several processes, remembered by what they depend on."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.cli.core_planner import CorePlanner
from tidegate.simulate.baselines.catalogue import baseline
from tidegate.simulate.clairvoyant import clairvoyant
from tidegate.simulate.faults import faults_of
from tidegate.simulate.outcome import Outcome
from tidegate.simulate.run import run
from tidegate.simulate.traces import Trace, read_trace
from tidegate.simulate.world import Faults, World
from tidegate.simulate.worlds import of_trace

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "decide.json"
TRACES = Path(os.environ.get("TIDEGATE_SHARED", ROOT.parent / "shared")) / "traces"
WORDS = [f"model/{name}.py" for name in ("decision", "fleet", "memory", "memory_json", "policy")]
"""What of the model the decision speaks in."""
OURS, BOUND, STORM = "slo", "bound", "storm"
FILES = {
    "azure": "azure_2023_conv.csv.gz",
    "mooncake": "mooncake_conversation.jsonl.gz",
    "m-large": "servegen_m-large.csv",
    "m-large day": "servegen_m-large.csv",
}
DAYS = {"m-large": (2.0, 3.0), "m-large day": (2.0, 3.0)}


@dataclass(frozen=True, slots=True)
class Job:
    """One run: everything that it depends on but the code."""

    trace: str
    start: float
    policy: str
    faults: str = "none"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What the tables need of an outcome."""

    attainment: float
    hours: float
    burst_hours: float
    cost: float
    reversals_per_day: float
    wasted: float
    lost: int
    peak: int
    blind_shrinks: int
    failed: int


def kept_of(jobs: Iterable[Job]) -> dict[Job, Result | None]:
    """The results of those that were played before."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return {job: _read(kept[_key(job)]) for job in jobs if _key(job) in kept}


def play(jobs: Iterable[Job], processes: int) -> dict[Job, Result | None]:
    """Every job's result; None for a bound that no schedule keeps. What was played before is taken from the file."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    wanted = list(dict.fromkeys(jobs))
    new = [job for job in wanted if _key(job) not in kept]
    KEPT.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        for count, (job, result) in enumerate(zip(new, pool.map(_played, new), strict=True), start=1):
            kept[_key(job)] = result and asdict(result)
            _keep(kept)
            print(f"\r{count} of {len(new)}: {job.trace}, {job.policy}, {job.faults}".ljust(79), end="", flush=True)
    print("\r".ljust(79), end="\r")
    return {job: _read(kept[_key(job)]) for job in wanted}


def _keep(kept: dict[str, Any]) -> None:
    """In one step, so that an end in the middle loses nothing."""
    new = KEPT.with_suffix(".new")
    new.write_text(json.dumps(kept))
    new.replace(KEPT)


def _read(kept: dict[str, Any] | None) -> Result | None:
    return Result(**kept) if kept else None


def _played(job: Job) -> Result | None:
    world = _world(job)
    if job.policy == BOUND:
        days = job.trace in DAYS
        found = clairvoyant(world, job.seed, run, thinning=0 if days else 2)
        return _result(found.outcome) if found else None
    planner = CorePlanner() if job.policy == OURS else baseline(job.policy)
    return _result(run(world, planner, job.seed))


def _world(job: Job) -> World:
    world = replace(of_trace(_trace(job.trace), DAYS.get(job.trace)), start_seconds=job.start)
    world = replace(world, fluid=job.trace == "m-large")
    if job.faults == STORM:
        one, other = faults_of("outage", world), faults_of("restart", world)
        return replace(world, faults=replace(one, restart_every=other.restart_every, **_STORM))
    return replace(world, faults=faults_of(job.faults, world) if job.faults != "none" else Faults())


_STORM = {"silent_share": 0.2, "failed_start_share": 0.3, "dropped_share": 0.05}


@cache
def _trace(name: str) -> Trace:
    file = TRACES / FILES[name]
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        return read_trace(lines)


def _result(outcome: Outcome) -> Result:
    per_replica = 4
    return Result(
        attainment=outcome.attainment,
        hours=outcome.gpu_hours / per_replica,
        burst_hours=outcome.burst_gpu_hours / per_replica,
        cost=outcome.cost,
        reversals_per_day=outcome.reversals_per_day,
        wasted=outcome.wasted_share,
        lost=outcome.lost_in_drain,
        peak=outcome.peak_gpus // per_replica,
        blind_shrinks=outcome.blind_shrinks,
        failed=outcome.failed_starts,
    )


def _key(job: Job) -> str:
    more = {OURS: ["decide", "link/planner", *WORDS], BOUND: ["simulate/clairvoyant.py"]}
    parts = ["simulate", *more.get(job.policy, [])]
    return f"{job.trace}|{job.start:g}|{job.policy}|{job.faults}|{job.seed}|{'|'.join(_digest(part) for part in parts)}"


@cache
def _digest(part: str) -> str:
    """What a folder's or a file's code comes to; the search for the bound counts by itself alone."""
    place = ROOT / "daemon" / "tidegate" / part
    files = (
        [place] if place.is_file() else [file for file in sorted(place.rglob("*.py")) if file.name != "clairvoyant.py"]
    )
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]
