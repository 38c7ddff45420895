"""Leadership, the fleet, the log and reports on Postgres 15 through a PgBouncer (conftest.py)."""
# ruff: noqa: F403 - the tests of the suites are this module's own

from __future__ import annotations

from contract.test_leadership import *
from contract.test_store_fleet import *
from contract.test_store_log import *
from contract.test_store_reports import *

from tidegate.store.database import Database


def test_this_is_the_old_one(database: Database) -> None:
    """Were it another, the suites would prove nothing."""
    assert database.ping().startswith("15.")
