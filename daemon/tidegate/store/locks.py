"""The advisory locks, each held to the end of its transaction: they pass through any pooler and die with the client."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from tidegate.store.binary import cursor, text_array

_HOST = 7_489
_PARTITIONS = 7_490
_MIGRATION = 7_491
_BILLS = 7_501
_ROLL_UP = 7_492
_SERIES = 7_493
_COMMANDS = 7_494


_LOCKED = (
    "SELECT count(pg_advisory_xact_lock({0}, number)) "
    "FROM (SELECT DISTINCT hashtext(host) AS number FROM unnest(%(locked)s::text[]) AS h (host) ORDER BY 1) AS n"
)
_ROLL_UP_LOCKED, HOSTS_LOCKED = _LOCKED.format(_ROLL_UP), _LOCKED.format(_HOST)
"""Lets one transaction with reports of these hosts in at a time, so that a report is stored once.

Locks are taken in one order, so that nobody waits in a circle.
"""


def lock_roll_up(connection: Connection, hosts: Collection[str]) -> None:
    """Let one at a time work out the usage of a host; the locks are taken in one order too."""
    with cursor(connection) as bare:
        bare.execute(_ROLL_UP_LOCKED, {"locked": text_array(sorted(hosts))})


def lock_series(connection: Connection, host: str) -> None:
    """Let one at a time write the host's series, chunks and rollups."""
    connection.execute(select(func.pg_advisory_xact_lock(_SERIES, func.hashtext(host))))


def lock_commands(connection: Connection) -> None:
    """Let one at a time give or end operators' commands, so that of one kind and pool one stands."""
    connection.execute(select(func.pg_advisory_xact_lock(_COMMANDS, 0)))


def lock_partitions(connection: Connection) -> None:
    """Let one at a time make or drop partitions."""
    connection.execute(select(func.pg_advisory_xact_lock(_PARTITIONS, 0)))


def lock_migration(connection: Connection) -> None:
    """Let one at a time migrate."""
    connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION, 0)))


def lock_bills(connection: Connection) -> None:
    """Let one at a time import, close or reopen bills: two imports of one period never mix."""
    connection.execute(select(func.pg_advisory_xact_lock(_BILLS, 0)))
