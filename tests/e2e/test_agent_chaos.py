"""The short form of the agent's soak: half a minute of engines and GPUs that fail at random."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fakes.agent_soak import Soak, shown

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is absent (Debian package: gcc)"),
]


def test_thirty_collections_tell_nothing_untrue(tmp_path: Path) -> None:
    """What `make soak` shows of a thousand."""
    soak = Soak(tmp_path, seed=3, every="2s")
    soak.run(30)

    assert not soak.wrong, shown(soak.wrong)
    assert soak.pages >= 10
    assert all(engine.faults for engine in soak.engines)
