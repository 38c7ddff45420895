"""`tidegate simulate TRACE`: play a trace with our decision core and with other systems', and compare."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from tidegate.model.policy import FleetPolicy
    from tidegate.simulate.clairvoyant import Play
    from tidegate.simulate.outcome import Outcome
    from tidegate.simulate.scorecard import Score
    from tidegate.simulate.traces import Trace
    from tidegate.simulate.world import Planner, World

OURS = "slo"


def simulate(
    trace: Annotated[Path, typer.Argument(help="Azure or ServeGen CSV, Mooncake JSON lines, a log of ours; or .gz.")],
    policy: Annotated[
        list[str] | None, typer.Option(help="slo (ours), hpa-16, static-8, kpa, ray, ...; repeat. Default: slo.")
    ] = None,
    start_seconds: Annotated[
        float, typer.Option(min=0.0, max=86_400.0, help="How long a replica takes to start.")
    ] = 240.0,
    faults: Annotated[
        list[str] | None, typer.Option(help="outage, nan, silent, failed-starts, quota, hang, ...; repeat.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each kind; the worst SLO counts.")] = 1,
    days: Annotated[str | None, typer.Option(help="FROM-TO in days, to cut a long trace: 2-3.")] = None,
    initial: Annotated[int | None, typer.Option(min=0, help="Replicas that are ready when it begins.")] = None,
    fluid: Annotated[bool, typer.Option("--fluid", help="Engines as fluids: weeks in a minute, coarser.")] = False,
    prefix_cache: Annotated[bool, typer.Option("--prefix-cache", help="Use the hits a trace tells of.")] = False,
    bound: Annotated[bool, typer.Option("--bound/--no-bound", help="Search the clairvoyant schedule.")] = True,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", readable=False, help="Pools, goals and policy of your own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The scorecard as JSON.")] = False,
) -> None:
    """Print the scorecard of a trace: SLO attainment, GPU hours, cost and manners of each policy.

    Public traces are scaled so that 2 to 12 replicas of a 70B model are needed. What the columns mean, and how the
    bound is found: docs/performance.md.
    """
    from tidegate.runtime.errors import Permanent
    from tidegate.simulate.worlds import of_trace

    try:
        policies = load_policies(config)
        world = of_trace(read(trace), span_of(days), prefix_cache=prefix_cache)
        first = world.initial if initial is None else initial
        world = with_pools(replace(world, start_seconds=start_seconds, fluid=fluid, initial=first), policies)
        planners = [maker(name, policies) for name in policy or [OURS]]
        worlds = [(name, faulty(world, name)) for name in faults or ["none"]]
    except ValueError as error:
        raise Permanent(f"{trace}: {error}" if isinstance(error, _bad_trace()) else str(error)) from error
    scores = list(_scores(worlds, planners, seeds, bound=bound))
    if as_json:
        print(json.dumps([score.as_json() for score in scores], indent=2))
        return
    _show(world.name, scores)


def _show(name: str, scores: Sequence[Score]) -> None:
    from tidegate.cli.simulate_view import show

    show(name, scores)


def read(file: Path) -> Trace:
    """The trace in a file, packed or not; raises BadTrace, and Permanent when it cannot be read."""
    from tidegate.runtime.errors import Permanent
    from tidegate.simulate.traces import read_trace

    try:
        with _opened(file) as lines:
            return read_trace(lines)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Permanent(f"{file} cannot be read ({error}); name a trace as text or packed with gzip") from error


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8")
    return file.open(encoding="utf-8")


def span_of(days: str | None) -> tuple[float, float] | None:
    """`2-3` as days; raises ValueError with the remedy."""
    if days is None:
        return None
    begin, _, end = days.partition("-")
    try:
        span = float(begin), float(end)
    except ValueError:
        span = (0.0, 0.0)
    if not 0 <= span[0] < span[1]:
        raise ValueError(f"--days {days}: say FROM-TO in days from the trace's beginning, such as 2-3")
    return span


def load_policies(config: Path | None) -> FleetPolicy | None:
    """The configuration's policy; None without one."""
    if config is None:
        return None
    from tidegate.config.load import load

    return load(config).fleet


def with_pools(world: World, policies: FleetPolicy | None) -> World:
    """The world with the pools and the goals of a configuration, which must have one service."""
    if policies is None:
        return world
    from tidegate.simulate.world import PoolSpec

    if len(policies.services) != 1:
        raise ValueError(f"--config: a trace is the traffic of one service, not of {', '.join(policies.services)}")
    slo = next(iter(policies.services.values())).slo
    pools = tuple(
        PoolSpec(
            pool.name,
            pool.kind.value,
            pool.min,
            pool.max,
            pool.gpus_per_replica,
            float(pool.first_flavour.price_per_gpu_hour or 0) * pool.gpus_per_replica,
        )
        for pool in policies.pools.values()
    )
    return replace(world, pools=pools, slo=replace(world.slo, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s))


def maker(name: str, policies: FleetPolicy | None) -> Callable[[], Planner]:
    """What makes a new planner of that name for each run; raises ValueError naming those there are."""
    from tidegate.simulate.baselines.catalogue import baseline

    if name == OURS:
        from tidegate.cli.core_planner import CorePlanner

        return lambda: CorePlanner(policies)
    baseline(name)
    return lambda: baseline(name)


def faulty(world: World, name: str) -> World:
    """The world with the faults of that name."""
    from tidegate.simulate.faults import faults_of

    return replace(world, faults=faults_of(name, world))


def _bad_trace() -> type[ValueError]:
    from tidegate.simulate.log import BadTrace

    return BadTrace


def _scores(
    worlds: list[tuple[str, World]], planners: list[Callable[[], Planner]], seeds: int, *, bound: bool
) -> Iterator[Score]:
    from tidegate.simulate.clairvoyant import clairvoyant
    from tidegate.simulate.scorecard import Score

    with _played(worlds[0][1].seconds) as play:
        found = [clairvoyant(worlds[0][1], seed, play) for seed in range(seeds)] if bound else []
        hours = [best.outcome.gpu_hours for best in found if best is not None]
        if found and hours:
            bounds = tuple(best.outcome for best in found if best is not None)
            yield Score(bounds, "none", worlds[0][1].start_seconds, sum(hours) / len(hours))
        for name, world in worlds:
            for make in planners:
                outcomes = tuple(play(world, make(), seed) for seed in range(seeds))
                yield Score(outcomes, name, world.start_seconds, sum(hours) / len(hours) if hours else None)


@contextmanager
def _played(seconds: float) -> Iterator[Play]:
    """Runs with a bar on standard error where somebody looks."""
    from tidegate.simulate.run import run

    if not sys.stderr.isatty():
        yield run
        return
    from tidegate.cli.simulate_view import bar

    with bar(seconds) as begin:

        def play(world: World, planner: Planner, seed: int) -> Outcome:
            return run(world, planner, seed, begin(f"{world.name}: {planner.name}, seed {seed}"))

        yield play
