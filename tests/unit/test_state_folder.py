"""A state folder that another user has used: one line with the place and the remedy, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.store import FakeStore

from tidegate.agent.desired_state import KeptFile
from tidegate.controller.first_token import ensure_operator_token
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.runtime.files import claim


def test_a_desired_state_that_cannot_be_opened_is_for_a_person_to_mend(tmp_path: Path) -> None:
    """An agent that was once started by root leaves such a file; a folder stands in for it, since root reads all."""
    (tmp_path / "desired.json").mkdir()

    with pytest.raises(ConfigError, match=r"state_dir: .*desired\.json cannot be read .*give it.* to user"):
        KeptFile(tmp_path / "desired.json").load()


def test_a_folder_that_became_read_only_is_not_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock file lies there from before, and may still be opened."""
    claim(tmp_path, "[agent] state_dir").close()
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)

    with pytest.raises(ConfigError, match=r"\[agent\] state_dir: .* cannot be written"):
        claim(tmp_path, "[agent] state_dir")


@pytest.mark.parametrize("content", [b"", b"\n", b"admin", b"\xff\xfe", b"tgh_" + b"a" * 43])
def test_what_is_no_token_of_ours_never_becomes_the_operators(tmp_path: Path, content: bytes) -> None:
    """A word that somebody wrote into the file would be a password that can be guessed."""
    store = FakeStore()
    (tmp_path / "operator.token").write_bytes(content)

    with pytest.raises(Permanent, match="remove it and start again"):
        ensure_operator_token(tmp_path, store.users, SystemClock().now())
    assert not store.users.users
