"""Faults by name: what `--faults` takes, and what the scorecard is made with."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.simulate.world import Faults, Span, World

_HOUR = 3600.0


def _often(world: World) -> float:
    """Every hour, or thrice in a shorter run."""
    return min(_HOUR, world.seconds / 4)


def _third(world: World) -> float:
    """A moment in the first third, when every planner has settled."""
    return min(1500.0, world.seconds / 3)


_FAULTS: dict[str, Callable[[World], Faults]] = {
    "none": lambda _: Faults(),
    "outage": lambda world: Faults(outage=Span(_third(world), 600.0, 24 * _HOUR)),
    "nan": lambda world: Faults(not_a_number=Span(_third(world), 600.0, 24 * _HOUR)),
    "silent": lambda _: Faults(silent_share=0.2),
    "failed-starts": lambda _: Faults(failed_start_share=0.3),
    "quota": lambda world: Faults(quota=max(1, sum(pool.max for pool in world.pools) // 2)),
    "hang": lambda world: Faults(hang=Span(_third(world), 300.0, _HOUR / 2)),
    "restart": lambda world: Faults(restart_every=_often(world)),
    "memory-lost": lambda world: Faults(restart_every=_often(world), memory_lost=True),
    "clock-ahead": lambda world: Faults(clock_step=_HOUR, clock_step_at=_third(world)),
    "clock-back": lambda world: Faults(clock_step=-_HOUR, clock_step_at=_third(world)),
    "dropped": lambda _: Faults(dropped_share=0.2),
    "doubled": lambda _: Faults(doubled_share=0.3),
}

NAMES = tuple(_FAULTS)


def faults_of(name: str, world: World) -> Faults:
    """The faults of that name in this world; raises ValueError naming those there are.

    `outage` and `nan` last ten minutes a day, `silent` is 20 % of replicas, `failed-starts` 30 % of starts, `quota`
    half of all pools' maximum, `hang` five minutes in every thirty, `restart` and `memory-lost` every
    hour (thrice in a shorter run),
    `clock-ahead` and `clock-back` one hour once, `dropped` 20 % of plans, `doubled` 30 % of starts.
    """
    try:
        return _FAULTS[name](world)
    except KeyError:
        raise ValueError(f"no fault {name!r}; there are {', '.join(NAMES)}") from None
