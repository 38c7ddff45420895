"""A refused table without what was refused, so that everything else in it is still looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import ValidationError

from tidegate.config.lines import KeyPath
from tidegate.config.schema_base import Table

T = TypeVar("T", bound=Table)

_STAND_INS: Mapping[str, Any] = {"name": "unnamed", "url": "http://127.0.0.1", "gpus": 128}
"""For required keys; whatever is complained of at such a key's place is left out, as the key itself is refused."""


def mended(model: type[T], raw: Mapping[str, Any], refused: Iterable[KeyPath]) -> T | None:
    """The table without the refused keys, their defaults or stand-ins in their place; its name is empty when refused.

    None when even that cannot be read.
    """
    data: Any = dict(raw)
    for path in refused:
        data = _without(data, path)
    lacking = [key for key, field in model.model_fields.items() if field.is_required() and key not in data]
    try:
        table = model.model_validate(data | {key: _stand_in(model, key) for key in lacking})
    except ValidationError:
        return None
    return table.model_copy(update={"name": ""}) if "name" in lacking else table


def _stand_in(model: type[Table], key: str) -> Any:
    kind = model.model_fields[key].annotation
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind)).value
    return _STAND_INS.get(key)


def _without(data: Any, path: KeyPath) -> Any:
    """A copy without the value at `path`; without the whole array where that is an element of one."""
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    head, *rest = path
    inner = data[head]
    if not rest or (isinstance(rest[0], int) and not _is_table(inner, rest)):
        return {key: value for key, value in data.items() if key != head}
    if isinstance(rest[0], int):
        position = rest[0]
        return data | {head: [*inner[:position], _without(inner[position], tuple(rest[1:])), *inner[position + 1 :]]}
    return data | {head: _without(inner, tuple(rest))}


def _is_table(inner: Any, rest: list[str | int]) -> bool:
    """Whether the refusal is of a key inside an element that is a table."""
    position = rest[0]
    if len(rest) < 2 or not isinstance(inner, list) or not isinstance(position, int) or position >= len(inner):
        return False
    return isinstance(inner[position], dict)
