"""Loads by time of day, packed: five-minute buckets of the last two weeks, in a few kilobytes of text.

A bucket that is not known stays unknown: missing time is no load of zero.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidegate.model.season import Day

BUCKET_S = 300.0
A_DAY = 288
"""Buckets."""
_KEPT = 15
"""Days: today and two weeks."""
_LETTERS = string.ascii_letters + string.digits + "-_"
_PAIRS = [high + low for high in _LETTERS for low in _LETTERS]
_UNKNOWN = _PAIRS[0]
_LEAST, _STEP = 1e-4, 0.005
"""Loads are kept to half a per cent, in steps of equal ratio."""
_LOADS: dict[str, float | None] = {
    pair: None if code == 0 else 0.0 if code == 1 else _LEAST * math.exp(_STEP * (code - 2))
    for code, pair in enumerate(_PAIRS)
}


class Profile:
    """The days, to be asked for any bucket."""

    def __init__(self, days: Iterable[Day]) -> None:
        self._days = {day.number: day for day in days}

    def at(self, bucket: int) -> float | None:
        """The load of a bucket; None where it is not known."""
        number, place = divmod(bucket, A_DAY)
        day = self._days.get(number)
        if day is None:
            return None
        return _LOADS[day.loads[2 * place : 2 * place + 2]]

    def known(self, buckets: Iterable[int]) -> Iterator[float]:
        """The loads of those buckets that are known."""
        for bucket in buckets:
            load = self.at(bucket)
            if load is not None:
                yield load


def with_load(days: Sequence[Day], bucket: int, load: float) -> tuple[Day, ...]:
    """The days with the load of one more bucket; the oldest are forgotten, and days ahead of it never were."""
    number, place = divmod(bucket, A_DAY)
    past = [day for day in days if day.number <= number]
    if not past or past[-1].number < number:
        past.append(Day(number, _UNKNOWN * A_DAY))
    today = past[-1]
    packed = _packed(load)
    loads = today.loads[: 2 * place] + packed + today.loads[2 * place + 2 :]
    return (*past[-_KEPT:-1], replace(today, loads=loads))


def _packed(load: float) -> str:
    code = 1 if load < _LEAST else 2 + round(math.log(load / _LEAST) / _STEP)
    return _PAIRS[min(len(_PAIRS) - 1, code)]
