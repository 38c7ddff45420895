"""What lies in the database, for the operator: versions, sizes, and the reports by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from tidegate.store.database import Database
from tidegate.store.migrate import Revisions, revisions
from tidegate.store.partitions import parts


@dataclass(frozen=True, slots=True)
class Partition:
    """One day of reports."""

    name: str
    rows: int
    size_bytes: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The database at one moment."""

    server_version: str
    revisions: Revisions
    size_bytes: int
    partitions: tuple[Partition, ...]
    """Oldest first; none while the tables are not there."""


def inventory(database: Database) -> Inventory:
    """Look at everything; counts rows one by one, which takes a second for every ten million."""
    version, found = database.ping(), revisions(database)
    with database.begin() as connection:
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        days = (
            ()
            if found.current is None
            else tuple(_day(connection, part.name) for part in parts(connection, ["report"]))
        )
    return Inventory(version, found, size, days)


def _day(connection: Connection, name: str) -> Partition:
    # A partition's name is our own: a prefix and a date.
    query = text(f"SELECT count(*), min(at), max(at), pg_total_relation_size('{name}') FROM {name}")  # noqa: S608
    rows, first, last, size = connection.execute(query).one()
    return Partition(name, rows, size, first, last)
