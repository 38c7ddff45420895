"""The advisory locks, each held to the end of its transaction: they pass through any pooler and die with the client."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

_HOST = 7_489
_PARTITIONS = 7_490
_MIGRATION = 7_491
_COMMANDS = 7_494


def lock_host(connection: Connection, host: str) -> None:
    """Let one batch or one roll-up of the host in at a time: a batch is stored once, and no bucket's mark is lost."""
    connection.execute(select(func.pg_advisory_xact_lock(_HOST, func.hashtext(host))))


def lock_commands(connection: Connection) -> None:
    """Let one at a time give or end operators' commands, so that of one kind and pool one stands."""
    connection.execute(select(func.pg_advisory_xact_lock(_COMMANDS, 0)))


def lock_partitions(connection: Connection) -> None:
    """Let one at a time make or drop partitions."""
    connection.execute(select(func.pg_advisory_xact_lock(_PARTITIONS, 0)))


def lock_migration(connection: Connection) -> None:
    """Let one at a time migrate."""
    connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION, 0)))
