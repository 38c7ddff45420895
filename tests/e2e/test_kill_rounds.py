"""Kill -9 of Postgres, controller and agents at random moments: what was acknowledged is stored, and stored once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from fakes.kill_fleet import KillFleet


@pytest.fixture
def fleet() -> Iterator[KillFleet]:
    made = KillFleet()
    yield made
    made.close()
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.mark.timeout(300)
def test_what_was_acknowledged_survives_kills(fleet: KillFleet) -> None:
    """Once each, in any order of the dice."""
    for kill in (fleet._kill_postgres, fleet._kill_controller, fleet._kill_agent):
        kill()
        fleet._until_all_are_heard()
    fleet.settle()
    assert fleet.check() > 0


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_survives_fifty_kills(fleet: KillFleet) -> None:
    for _ in range(50):
        fleet.round()
    fleet.settle()
    stored = fleet.check()
    print(f"\n50 kills {dict(fleet.killed)}: {stored} reports, each stored once, before and after compaction")
