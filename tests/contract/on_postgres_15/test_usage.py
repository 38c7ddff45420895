"""Usage on Postgres 15 through a PgBouncer (conftest.py); apart, since its suite has a store of its own."""
# ruff: noqa: F403 - the tests of the suite are this module's own

from __future__ import annotations

from contract.test_store_usage import *
