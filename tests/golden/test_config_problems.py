"""Everything that `config check` says of a file with a mistake in nearly every line: a golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.load import load
from tidegate.config.problem import ConfigProblems

FOLDER = Path(__file__).parent / "config"
HOW = "if this change is meant: (cd tests/golden/config && tidegate config check broken.toml | head -n -1 > broken.txt)"


def test_every_problem_of_a_badly_broken_file_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in one line with its place and the remedy."""
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigProblems) as refused:
        load(Path("broken.toml"))
    assert str(refused.value) + "\n" == (FOLDER / "broken.txt").read_text(), HOW


def test_no_secret_of_the_file_is_repeated() -> None:
    """Every secret in the broken file has hunter2 in it."""
    assert "hunter2" in (FOLDER / "broken.toml").read_text()
    assert "hunter2" not in (FOLDER / "broken.txt").read_text()


def test_problems_stand_in_the_order_of_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigProblems) as refused:
        load(Path("broken.toml"))
    lines = [problem.line for problem in refused.value.problems]
    assert lines == sorted(lines)
    assert len({(problem.line, problem.key) for problem in refused.value.problems}) == len(lines)
