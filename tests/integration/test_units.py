"""The systemd units: they verify, they are hardened, and the installed program prints them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "systemd").glob("*.service"))
EXPOSURE_LIMIT_TENTHS = 25

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def unit(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem, indirect=True)
def test_a_unit_verifies(unit: Path) -> None:
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", unit], capture_output=True, text=True
    )

    assert (run.returncode, run.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem, indirect=True)
def test_a_unit_is_exposed_below_2_5(unit: Path) -> None:
    run = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_LIMIT_TENTHS}", unit],
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout


@needs_systemd
def test_the_drop_in_verifies_with_the_unit_and_opens_little(tmp_path: Path) -> None:
    """With it the agent sees the processes of others, and is no more exposed than the others may be."""
    unit = tmp_path / "tidegate-agent.service"
    unit.write_bytes((ROOT / "systemd" / unit.name).read_bytes())
    folder = tmp_path / "tidegate-agent.service.d"
    folder.mkdir()
    (folder / "processes.conf").write_bytes((ROOT / "systemd" / "tidegate-agent-processes.conf").read_bytes())
    where = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", unit.name],
        capture_output=True, text=True, env=where,
    )  # fmt: skip
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_LIMIT_TENTHS}", unit.name],
        capture_output=True, text=True, env=where,
    )  # fmt: skip

    assert (verified.returncode, verified.stderr) == (0, "")
    assert judged.returncode == 0, judged.stdout
    (capability,) = [line for line in judged.stdout.splitlines() if "CapabilityBoundingSet=~CAP_SYS_PTRACE" in line]
    assert capability.startswith("\u2717"), "the drop-in was not read"


@needs_systemd
def test_an_unknown_key_would_be_caught(tmp_path: Path) -> None:
    """The check can fail: a misspelt key is an error."""
    broken = tmp_path / "tidegate-agent.service"
    broken.write_text(UNITS[0].read_text().replace("WatchdogSec=", "WatchdogSecs=").replace("Type=", "Typo="))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", broken], capture_output=True, text=True
    )

    assert run.returncode != 0 or "Unknown" in run.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem, indirect=True)
def test_a_unit_has_the_manners_of_a_daemon(unit: Path) -> None:
    lines = set(unit.read_text().splitlines())

    assert {"Type=notify", "RestartPreventExitStatus=78", "DynamicUser=yes", "Restart=always"} <= lines
    assert any(line.startswith("WatchdogSec=") for line in lines)


@pytest.mark.parametrize("name", ["agent", "controller", "rules", "processes"])
def test_the_program_prints_each_file(name: str) -> None:
    printed = CliRunner().invoke(app, ["units", name])

    assert printed.exit_code == 0
    assert printed.stdout in {path.read_text() for path in (ROOT / "systemd").iterdir()}
