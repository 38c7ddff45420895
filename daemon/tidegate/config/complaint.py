"""One pydantic error into one line that says what is wrong and what would be right."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tidegate.config.fields import did_you_mean, shown
from tidegate.config.schema import every_table, inner_table, title

_SECRET = re.compile(r"(^|_)(token|secret|password|passwd|api_?key|access_key)$", re.IGNORECASE)
_TYPES = {
    "bool_type": "must be true or false, without quotes",
    "tuple_type": "must be an array, [...]",
    "dict_type": "must be a table of key = value",
    "model_type": "must be a table of key = value",
    "model_attributes_type": "must be a table of key = value",
}


def is_secret(key: str) -> bool:
    """Whether a key of this name holds a secret itself (and not, like `token_file`, the place of one)."""
    return _SECRET.search(key) is not None


def complain(table: type[BaseModel], error: ErrorDetails) -> str:
    """The message for an error in `table`; never repeats what may be a secret."""
    place, kind = error["loc"], error["type"]
    key = str(place[-1]) if place else ""
    if kind == "extra_forbidden":
        return _unknown(_table_at(table, place[:-1]), key)
    if kind == "missing":
        return "is required and missing"
    said = _TYPES.get(kind)
    if said is None:
        return error["msg"]
    return f"{said}, not {shown(error['input'])}"


def unknown_table(name: str, known: list[str]) -> str:
    """What to say of a table (or a key outside every table) that nobody knows."""
    return f"is not known; {did_you_mean(name, known)}"


def _unknown(table: type[BaseModel], key: str) -> str:
    keys = list(table.model_fields)
    if is_secret(key):
        places = [each for each in keys if each.endswith(("_file", "_env"))]
        places = [each for each in places if each.startswith(key)] or places
        form = f"name it in {' or '.join(places)}" if places else "name that file where the secret is used"
        return f"a secret does not belong into this file: put it into a file of its own and {form}"
    elsewhere = [title(name) for name, other in every_table() if key in other.model_fields and other is not table]
    if elsewhere:
        return f"is not known here; it belongs into {' or '.join(elsewhere)}"
    return f"is not known here; {did_you_mean(key, keys)}"


def _table_at(table: type[BaseModel], place: tuple[str | int, ...]) -> type[BaseModel]:
    for part in place:
        field: Any = table.model_fields.get(part) if isinstance(part, str) else None
        inner = inner_table(field.annotation) if field is not None else None
        table = inner or table
    return table
