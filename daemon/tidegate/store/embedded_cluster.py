"""How the embedded cluster comes to be, whom it lets in, and where its socket lies."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

from tidegate.runtime.errors import Permanent
from tidegate.store.embedded_home import Home
from tidegate.store.embedded_process import run
from tidegate.store.embedded_user import ServerUser, barrier

ROLE = "tidegate"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_LIMIT = 100
"""Bytes of a socket's path that every kernel takes (Linux 107, others 103)."""
_SHORT = "tidegate-db-"
_MAP = "tidegate"
_INITDB = (
    f"--username={ROLE}",
    "--auth-local=peer",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    "--no-instructions",
)


def made_by(home: Home) -> int | None:
    """The major version that made the data; None when there is none yet."""
    version = home.data / "PG_VERSION"
    return int(version.read_text(encoding="utf-8").split(".")[0]) if version.exists() else None


def initialise(home: Home, programs: Path, user: ServerUser, *, durable: bool) -> None:
    """Make the cluster; one that was cut short is never taken for a whole one."""
    fresh = home.path / "data.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o700)
    _give(fresh, user)
    options = [*_INITDB, *([] if durable else ["--no-sync"])]
    done = run(user, [str(programs / "initdb"), f"--pgdata={fresh}", *options])
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Permanent(f"the embedded database could not be made in {home.path}: {said}")
    fresh.rename(home.data)


def admission(home: Home, user: ServerUser, over_tcp: str = "") -> dict[str, str]:
    """Let in over the socket the server's user, ourselves and root, as the kernel knows them: the settings.

    `over_tcp` are lines of pg_hba.conf for others; without any nobody else comes in.
    """
    names = {user.name, "root", pwd.getpwuid(os.geteuid()).pw_name}
    identities = "".join(f'{_MAP} "{name}" {ROLE}\n' for name in sorted(names))
    return {
        "hba_file": str(home.write("hba.conf", f"local all all peer map={_MAP}\n{over_tcp}")),
        "ident_file": str(home.write("ident.conf", identities)),
    }


def socket_dir(home: Home, user: ServerUser, last: Path | None) -> Path:
    """A 0700 folder for the socket: in the home, or a short-named one elsewhere when that path is too long.

    The `last` one is used again where it still is ours, so that clients find a restarted server.
    """
    own = home.path / "socket"
    if len(os.fsencode(own / _SOCKET_NAME)) <= _SOCKET_LIMIT:
        own.mkdir(mode=0o700, exist_ok=True)
        _give(own, user)
        return own
    if last is not None and _is_short(last) and last.stat().st_uid == user.uid:
        return last
    forget_socket_dir(last)
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), "/run", "/tmp"):  # noqa: S108 - mkdtemp makes it ours alone
        if base and os.access(base, os.W_OK) and (not user.assumed or barrier(Path(base), user) is None):
            made = Path(tempfile.mkdtemp(prefix=_SHORT, dir=base))
            _give(made, user)
            return made
    raise Permanent(f"the path {own} is too long for a socket, and there is no /run or /tmp: use a shorter state_dir")


def forget_socket_dir(folder: Path | None) -> None:
    """Remove a short-named socket folder that a server left behind; the one in the home is kept."""
    if folder is not None and _is_short(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _is_short(folder: Path) -> bool:
    """True for a folder of our making, into which nobody but the server's user can have put anything."""
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return False
    return folder.name.startswith(_SHORT) and stat.S_ISDIR(mode) and stat.S_IMODE(mode) == 0o700


def _give(path: Path, user: ServerUser) -> None:
    if user.assumed:
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
