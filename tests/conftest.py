"""Shared fixtures: where the shared material is, and a moment to count from."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["fakes.postgres", "fakes.external_postgres"]

# A busy machine is no failure: an example may take as long as it does, within the test's own time-out.
settings.register_profile("tidegate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tidegate")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of captures, traces and skeletons; skips where it is absent."""
    folder = Path(os.environ.get("TIDEGATE_SHARED", ROOT / ".." / "shared")).resolve()
    if not (folder / "captures").is_dir():
        pytest.skip("the shared folder is absent (TIDEGATE_SHARED)")
    return folder


@pytest.fixture
def now() -> datetime:
    """A fixed moment: a Wednesday noon, UTC."""
    return datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
