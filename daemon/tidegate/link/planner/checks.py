"""Check the parts of one observation, collecting every problem with its place. Pure.

By hand instead of by a library: a figure that is not a number must be *missing* with its reason, not the end of the
line it stands in, and a planner that is asked once should start at once.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

_SHOWN = 60
_MOST_SAID = 20
_ALIKE = 0.8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = -2_000_000_000.0, 7_258_118_400.0
"""Seconds since 1970 that a time may be: about 1906 to 2200; a virtual clock may begin at 0."""


class Findings:
    """What is wrong with an observation (it is refused) and what was passed over (it is said)."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []

    def problem(self, place: str, message: str) -> None:
        """Something that must be mended before anything can be planned."""
        self.problems.append(f"{place}: {message}")

    def note(self, place: str, message: str) -> None:
        """Something that was left out."""
        self.notes.append(f"{place}: {message}")


def shown(value: Any) -> str:
    """A value in a few characters."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode()
    return f'"{text[:_SHOWN]}"' if isinstance(value, str) else text[:_SHOWN]


def table(value: Any, place: str, known: Collection[str], found: Findings) -> Mapping[str, Any]:
    """The object at a place; keys that are not known are passed over and said, near misses of known ones refused."""
    if not isinstance(value, dict):
        found.problem(place, f"must be an object, not {shown(value)}")
        return {}
    for key in value:
        if key not in known:
            _unknown(key, place, known, found)
    return value


def _unknown(key: str, place: str, known: Collection[str], found: Findings) -> None:
    near = difflib.get_close_matches(key.lower(), list(known), n=1, cutoff=_ALIKE)
    where = f"{place}.{shown(key)[1:-1]}" if place else shown(key)[1:-1]
    if near:
        found.problem(where, f'is not a key; did you mean "{near[0]}"?')
    else:
        found.note(where, f"is not a key of the planner and was passed over (known: {', '.join(known)})")


def number(value: Any) -> float | None:
    """The number as float, infinite ones included; None for anything else (true and false are no numbers)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole(value: Any, place: str, bounds: tuple[int, int], found: Findings) -> int | None:
    """A whole number within bounds; None and a problem otherwise."""
    exact, (low, high) = number(value), bounds
    if exact is None or not math.isfinite(exact) or exact != int(exact) or not low <= exact <= high:
        found.problem(place, f"must be a whole number, {low} to {high}, not {shown(value)}")
        return None
    return int(exact)


def amount(value: Any, place: str, high: float, found: Findings) -> float | None:
    """A finite number from 0 to `high`; None and a problem otherwise."""
    exact = number(value)
    if exact is None or not 0 <= exact <= high:
        found.problem(place, f"must be a number, 0 to {high:g}, not {shown(value)}")
        return None
    return exact


def moment(value: Any, place: str, found: Findings) -> datetime | None:
    """A time in seconds since 1970; None and a problem otherwise."""
    exact = number(value)
    if exact is None or not EARLIEST <= exact <= LATEST:
        found.problem(place, f"must be seconds since 1970, {EARLIEST:.0f} to {LATEST:.0f}, not {shown(value)}")
        return None
    return EPOCH + timedelta(seconds=exact)


def text(value: Any, place: str, longest: int, found: Findings) -> str:
    """A text that is not empty; an empty one and a problem otherwise."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        found.problem(place, f"must be a text of 1 to {longest} characters, not {shown(value)}")
        return ""
    return value


def first_few(messages: Sequence[str]) -> list[str]:
    """The first messages, and how many are left out."""
    left = len(messages) - _MOST_SAID
    return [*messages[:_MOST_SAID], *([f"and {left} more"] if left > 0 else [])]
