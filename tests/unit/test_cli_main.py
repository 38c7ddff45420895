"""The command line's own manners: its version, its help, and what it says where libraries are missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate import __version__
from tidegate.cli import main


def test_the_version_needs_no_command() -> None:
    result = CliRunner().invoke(main.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"tidegate {__version__}\n")


def test_help_shows_names_in_brackets() -> None:
    """Square brackets in help texts are markup unless escaped."""
    assert "[agent] table" in CliRunner().invoke(main.app, ["host", "enroll", "--help"], env={"COLUMNS": "200"}).output


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["controller", "-c", "x"], "controller"), (["agent"], "agent"), (["demo", "--once"], "all"), ([], "controller")],
)
def test_a_missing_library_is_one_line_with_the_extra_that_has_it(arguments: list[str], extra: str) -> None:
    said = main.missing_library(ModuleNotFoundError("no", name="some_library"), arguments)
    assert "some_library" in said
    assert f"pip install 'tidegate[{extra}]'" in said
    assert "\n" not in said


def test_a_missing_library_ends_the_command_with_that_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "tidegate.store.migrate", raising=False)
    monkeypatch.delitem(sys.modules, "tidegate.store.opening", raising=False)
    monkeypatch.delitem(sys.modules, "tidegate.store.database", raising=False)
    monkeypatch.setattr(sys, "argv", ["tidegate", "db", "migrate", "--dsn", "postgresql://nobody@localhost/none"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "tidegate: `tidegate db` needs sqlalchemy, which is not installed: pip install 'tidegate[controller]'\n"
    )


def test_a_missing_module_of_ours_is_a_fault_and_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("No module named 'tidegate.gone'", name="tidegate.gone")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(ModuleNotFoundError):
        main.main()


@pytest.mark.parametrize(
    "command", [["agent", "-c"], ["controller", "-c"], ["db", "status", "-c"], ["config", "check"]], ids=" ".join
)
def test_a_file_that_may_not_be_read_is_the_configurations_fault(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 78, so that systemd does not try again for ever; not the usage error that the parser would make of it."""
    file = tmp_path / "t.toml"
    file.write_text("[")
    monkeypatch.setattr(os, "access", lambda _path, mode: mode == os.F_OK)
    monkeypatch.setattr(Path, "open", forbidden)
    monkeypatch.setattr(sys, "argv", ["tidegate", *command, str(file)])

    with pytest.raises(SystemExit) as ended:
        main.main()

    assert ended.value.code == 78
    assert "cannot be read: Permission denied" in "".join(capsys.readouterr())


@pytest.mark.parametrize("text", ["nan", "1e300", "inf", "0"])
def test_an_interval_that_is_none_is_no_traceback(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tidegate", "agent", "--once", "--interval", text])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code in (2, 78)


def forbidden(_path: Path, _mode: str) -> None:
    raise PermissionError(13, "Permission denied")
