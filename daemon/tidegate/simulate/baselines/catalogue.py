"""Every baseline by the name that `--policy` takes: `NAME` with its published default, or `NAME-TARGET`."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.simulate.baselines.aibrix import Aibrix
from tidegate.simulate.baselines.dynamo import Dynamo
from tidegate.simulate.baselines.hpa import Hpa
from tidegate.simulate.baselines.knative import Knative
from tidegate.simulate.baselines.rayserve import RayServe
from tidegate.simulate.baselines.skyserve import SkyServe
from tidegate.simulate.baselines.static import Static
from tidegate.simulate.baselines.utilisation import Utilisation
from tidegate.simulate.baselines.wva import Wva
from tidegate.simulate.world import Planner

_WITH_TARGET: dict[str, Callable[[float], Planner]] = {
    "static": lambda target: Static(int(target), f"static-{int(target)}"),
    "hpa": Hpa,
    "kpa": Knative,
    "ray": RayServe,
    "skyserve": SkyServe,
    "apa": Aibrix,
}
_PLAIN: dict[str, Callable[[], Planner]] = {
    "hpa": Hpa,
    "kpa": Knative,
    "ray": RayServe,
    "skyserve": SkyServe,
    "apa": Aibrix,
    "wva": Wva,
    "dynamo": Dynamo,
    "gpu-utilisation": Utilisation,
}


def baseline(name: str) -> Planner:
    """A new planner of that name; raises ValueError naming those there are."""
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain()
    kind, _, target = name.rpartition("-")
    try:
        return _WITH_TARGET[kind](float(target))
    except (KeyError, ValueError):
        raise ValueError(f"no policy {name!r}; there are {', '.join(names())}") from None


def names() -> tuple[str, ...]:
    """What `baseline` takes."""
    return (*_PLAIN, *(f"{name}-TARGET" for name in _WITH_TARGET))
