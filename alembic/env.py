"""Run migrations: on the connection that Tidegate hands over, or (for developers) on the database of TIDEGATE_DSN."""

from __future__ import annotations

import os

from alembic import context

from tidegate.store.database import open_database
from tidegate.store.migrate import configure


def run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        configure(connection)
        return
    dsn = os.environ.get("TIDEGATE_DSN")
    if not dsn:
        raise SystemExit("set TIDEGATE_DSN to the address of a database, such as postgresql://USER@HOST/DATABASE")
    with open_database(dsn).begin() as own:
        configure(own)


if context.is_offline_mode():
    raise SystemExit("migrations run on a database, not offline: they look at what is there")
run()
