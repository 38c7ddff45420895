"""Single values of a GPU survey's JSON: read without ever raising, written so that a missing one says why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from tidegate.model.missing import Gap, Missing, Number

_Word = TypeVar("_Word", bound=StrEnum)

_TEXT_LIMIT = 256


def plain(value: Number) -> object:
    """A figure as a JSON value."""
    return {"missing": value.why.value} if isinstance(value, Missing) else value


def number(value: object, *, signed: bool = False) -> Number:
    """The figure that a JSON value is; negative ones only where they are `signed`."""
    if value is None:
        return Missing(Gap.NOT_REPORTED)
    if isinstance(value, Mapping):
        return Missing(member(Gap, value.get("missing")) or Gap.NOT_REPORTED)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Missing(Gap.MALFORMED)
    try:
        found = float(value)
    except OverflowError:
        return Missing(Gap.NOT_FINITE)
    if not math.isfinite(found):
        return Missing(Gap.NOT_FINITE)
    return found if signed or found >= 0 else Missing(Gap.MALFORMED)


def text(value: object) -> str:
    """A string of bounded length; empty for anything else."""
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""


def whole(value: object) -> int | None:
    """A whole number that is not negative; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def member(words: type[_Word], value: object) -> _Word | None:
    """The word of a closed set; None when it is none of them."""
    try:
        return words(str(value))
    except ValueError:
        return None


def entries(value: object) -> Iterator[Mapping[object, object]]:
    """The objects in a list; nothing for anything else."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, Mapping))
