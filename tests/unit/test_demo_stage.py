"""A stage that cannot be set keeps the log that its error names."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate.demo.pace import Pace
from tidegate.demo.stage import Stage, StagePlan
from tidegate.runtime.errors import Permanent

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def plan(folder: Path | None) -> StagePlan:
    return StagePlan(Pace.of_minutes(10), NOON, NOON, folder=folder)


def test_the_log_of_a_controller_that_ended_is_still_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The temporary folder goes after a good end alone."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stage = Stage(plan(None))
    with pytest.raises(Permanent, match=r"the demo's controller ended with 1 .*controller\.log"), stage:
        pass
    assert (stage.folder / "controller.log").exists()
    shutil.rmtree(stage.folder)


def test_a_stage_that_was_ended_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stage = Stage(plan(None))
    monkeypatch.setattr(stage, "start", lambda: None)
    with pytest.raises(KeyboardInterrupt), stage:
        raise KeyboardInterrupt
    assert not stage.folder.exists()
