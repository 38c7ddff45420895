"""A thousand collections of the real agent on a host where engines and GPUs fail at random."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes.agent_soak import Soak, shown

COLLECTIONS = 1000


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is absent (Debian package: gcc)")
def test_a_thousand_collections_tell_nothing_untrue(tmp_path: Path) -> None:
    """No counter is negative or falls without a restart, no missing one has a figure, no scrape fails."""
    soak = Soak(tmp_path, seed=20261125, every="1s")
    soak.run(COLLECTIONS)

    assert not soak.wrong, shown(soak.wrong)
    told = {engine.name: (engine.restarts, sum(engine.faults.values())) for engine in soak.engines}
    print(f"\n{COLLECTIONS} collections, {soak.pages} pages read; restarts and faults by engine: {told}")
