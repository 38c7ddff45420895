"""The decision core's memory as plain JSON values and back, by the fields of its classes.

`memory_from(memory_json(m)) == m` for every memory. A key that this program does not know is left out, one that is
missing takes its default, and what version 1 wrote is carried over: an upgrade of the program forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from tidegate.model.memory import MEMORY_VERSION, Memory

Json = Mapping[str, Any]
_Reader = Callable[[Any], Any]


def memory_json(memory: Memory) -> dict[str, Any]:
    """The memory as a JSON object, with the version of its shape."""
    return {"version": MEMORY_VERSION, **_plain(memory)}


def memory_from(data: Json) -> Memory | None:
    """What `memory_json` wrote, or what version 1 did; None when a later version wrote it.

    Raises KeyError, TypeError or ValueError when it is not a memory at all.
    """
    if data["version"] > MEMORY_VERSION:
        return None
    memory: Memory = _reader(Memory)(_upgraded(data) if data["version"] == 1 else data)
    return memory


def _upgraded(data: Json) -> Json:
    """Version 1 had one back-off a pool, without a flavour and a class."""
    pools = {}
    for name, pool in data["pools"].items():
        known = {"next_serial": pool["next_serial"], "counted": pool["counted"]}
        if until := pool["failed_until"]:
            why = pool.get("failed_why", "")
            known["back_offs"] = {"default": {"until": until, "failures": pool["failures"], "why": why}}
        pools[name] = known
    return {**data, "pools": pools}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


@cache
def _reader(kind: Any) -> _Reader:
    """How a value of this type is read back."""
    if isinstance(kind, NewType):
        return _reader(kind.__supertype__)
    if is_dataclass(kind):
        return _of_fields(kind)
    if get_origin(kind) in (Union, UnionType):
        inner = _reader(next(one for one in get_args(kind) if one is not type(None)))
        return lambda data: None if data is None else inner(data)
    if get_origin(kind) is tuple:
        return _of_tuple(get_args(kind))
    if get_origin(kind) is not None:
        key, item = map(_reader, get_args(kind))
        return lambda data: {key(name): item(found) for name, found in data.items()}
    return datetime.fromisoformat if kind is datetime else kind


def _of_fields(kind: Any) -> _Reader:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    return lambda data: kind(**{name: read(data[name]) for name, read in readers.items() if name in data})


def _of_tuple(kinds: tuple[Any, ...]) -> _Reader:
    if kinds[-1] is Ellipsis:
        item = _reader(kinds[0])
        return lambda data: tuple(map(item, data))
    items = tuple(map(_reader, kinds))
    return lambda data: tuple(read(one) for read, one in zip(items, data, strict=True))
