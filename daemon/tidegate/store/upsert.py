"""Rows that are added, or put in place of those that are there already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import Insert, insert


def upsert(table: Table, rows: Sequence[Mapping[str, Any]], keep: Collection[str] = ()) -> Insert:
    """One statement for all rows (at least one, all of the same columns), by primary key; `keep` is never changed."""
    new = insert(table).values(list(rows))
    keys = [column.name for column in table.primary_key]
    changing = {name: new.excluded[name] for name in rows[0] if name not in (*keys, *keep)}
    return new.on_conflict_do_update(index_elements=keys, set_=changing)
