"""What spread charges are spread by, pool by pool, a day at a time: bytes, size, tokens, GPU time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.cost.cells import CellBook
from tidegate.cost.route import Key
from tidegate.model.activity import Activity
from tidegate.model.allocation import OF_MODELS

Weights = tuple[tuple[str, int], ...]
"""By pool, none of them zero, in the order of names."""
_WHOLE = 1000
"""Measured figures are counted to the thousandth."""


@dataclass(slots=True)
class SpreadBook:
    """Weights of the days of an activity."""

    activity: Activity
    cells: CellBook
    _days: dict[tuple[int, str], tuple[Weights, str]] = field(default_factory=dict)
    _output: dict[int, dict[tuple[str, str], float]] = field(default_factory=dict)
    _time: dict[int, dict[tuple[str, str], int]] = field(default_factory=dict)
    _pools: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    _hosts: dict[tuple[str, int], Weights] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (host, pool, hour), tokens in self.activity.output.items():
            of_day = self._output.setdefault(hour // 24, {})
            of_day[host, pool] = of_day.get((host, pool), 0.0) + tokens
            self._pools.setdefault((host, hour // 24), set()).add(pool)
        for host, hour in sorted(self.cells.held()):
            of_day_time = self._time.setdefault(hour // 24, {})
            for cell, time in self.cells.hour(host, hour).cells:
                if cell.kind in OF_MODELS:
                    of_day_time[host, cell.pool] = of_day_time.get((host, cell.pool), 0) + time

    def weights(self, day: int, key: str) -> tuple[Weights, str]:
        """The weights of a day since 1970 and what they really are: where the key was not measured, the next best."""
        if (day, key) not in self._days:
            self._days[day, key] = self._look(day, key)
        return self._days[day, key]

    def of_host(self, host: str, day: int) -> Weights:
        """How the network of one host is shared: by the tokens that its pools sent."""
        if (host, day) not in self._hosts:
            found = _whole({pool: self._output[day][host, pool] for pool in self._pools.get((host, day), ())})
            self._hosts[host, day] = found
        return self._hosts[host, day]

    def _look(self, day: int, key: str) -> tuple[Weights, str]:
        if key == Key.BYTES:
            if found := self._measured(day, self.activity.sent, self._output.get(day, {})):
                return found, "bytes"
            if found := _whole(_by_pool(self._output.get(day, {}).items())):
                return found, "output_tokens"
        if key == Key.SIZE and (found := self._measured(day, self.activity.stored, self._time.get(day, {}))):
            return found, "size"
        return _whole(_by_pool(self._time.get(day, {}).items())), "gpu_time"

    def _measured(
        self, day: int, of_hosts: Mapping[tuple[str, int], float], within: Mapping[tuple[str, str], float]
    ) -> Weights:
        """What hosts measured, shared among their pools by another figure, GPU time where that is not known."""
        total: dict[str, float] = defaultdict(float)
        for (host, hour), figure in of_hosts.items():
            if hour // 24 == day:
                total[host] += figure
        found: dict[str, float] = defaultdict(float)
        for host in sorted(total):
            mine = {pool: share for (name, pool), share in within.items() if name == host and share > 0}
            mine = mine or {pool: t for (name, pool), t in self._time.get(day, {}).items() if name == host and t > 0}
            whole = sum(mine.values())
            for pool, share in sorted(mine.items()):
                found[pool] += total[host] * share / whole
        return _whole(found)


def _by_pool(rows: Iterable[tuple[tuple[str, str], float]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for (_, pool), figure in sorted(rows):
        found[pool] += figure
    return found


def _whole(figures: Mapping[str, float]) -> Weights:
    counted = ((pool, round(figure * _WHOLE)) for pool, figure in sorted(figures.items()) if pool)
    return tuple((pool, count) for pool, count in counted if count > 0)
