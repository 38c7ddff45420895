"""The embedded database's folder: data, socket, log and locks, and how the data comes to be."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tidegate.runtime.errors import Permanent, Transient
from tidegate.store.embedded_process import run
from tidegate.store.embedded_user import ServerUser, barrier

ROLE = "tidegate"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_LIMIT = 100
"""Bytes of a socket's path that every kernel takes (Linux 107, others 103)."""
_SHORT = "tidegate-db-"
_MAP = "tidegate"
_LOG_LIMIT = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Home:
    """The folder `postgres` of the state folder, and what lies in it."""

    path: Path

    @property
    def data(self) -> Path:
        """The cluster."""
        return self.path / "data"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.path / "server.log"

    def prepare(self, user: ServerUser) -> None:
        """Make the folder; raises Permanent when the server's user cannot get there. No other folder is changed."""
        mode = 0o711 if user.assumed else 0o700
        try:
            if not self.path.parent.exists():
                self.path.parent.mkdir(parents=True)
                self.path.parent.chmod(mode)
            self.path.mkdir(exist_ok=True)
            self.path.chmod(mode)
        except OSError as error:
            raise Permanent(f"the state folder {self.path.parent} cannot be used: {error}") from error
        blocked = barrier(self.path, user) if user.assumed else None
        if blocked is not None:
            raise Permanent(
                f"the database runs as the system user {user.name}, who may not enter {blocked}: set `state_dir` to a "
                f"folder that he can reach (such as /var/lib/tidegate), or run `chmod o+x {blocked}`"
            )

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None) -> Iterator[IO[str]]:
        """Hold a lock file; with `wait` None a held one raises Transient at once, else it is called between tries."""
        (self.path / name).touch(mode=0o600)  # whoever can read it can hold it
        with (self.path / name).open("a+", encoding="utf-8") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if wait is None:
                        raise Transient(f"{self.path / name} is held by another process") from None
                    wait()
            yield file

    def socket_dir(self, user: ServerUser, last: Path | None) -> Path:
        """A 0700 folder for the socket: in here, or a short-named one elsewhere when this path is too long.

        The `last` one is used again where it still is ours, so that clients find a restarted server.
        """
        own = self.path / "socket"
        if len(os.fsencode(own / _SOCKET_NAME)) <= _SOCKET_LIMIT:
            own.mkdir(mode=0o700, exist_ok=True)
            _give(own, user)
            return own
        if last is not None and _is_ours(last, user):
            return last
        self.forget_socket_dir(last)
        for base in (os.environ.get("XDG_RUNTIME_DIR", ""), "/run", "/tmp"):  # noqa: S108 - mkdtemp makes it ours alone
            if base and os.access(base, os.W_OK) and (not user.assumed or barrier(Path(base), user) is None):
                made = Path(tempfile.mkdtemp(prefix=_SHORT, dir=base))
                _give(made, user)
                return made
        raise Permanent(
            f"the path {own} is too long for a socket, and there is no /run or /tmp: use a shorter state_dir"
        )

    def forget_socket_dir(self, folder: Path | None) -> None:
        """Remove a short-named socket folder that a server left behind; ours is kept."""
        if folder is not None and folder.name.startswith(_SHORT):
            shutil.rmtree(folder, ignore_errors=True)

    def initialise(self, programs: Path, user: ServerUser, *, durable: bool) -> None:
        """Make the cluster; one that was cut short is never taken for a whole one."""
        fresh = self.path / "data.new"
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        _give(fresh, user)
        command = [
            str(programs / "initdb"),
            f"--pgdata={fresh}",
            f"--username={ROLE}",
            "--auth-local=peer",
            "--auth-host=reject",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
        ]
        options = [] if durable else ["--no-sync"]
        done = run(user, [*command, *options])
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise Permanent(f"the embedded database could not be made in {self.path}: {said}")
        fresh.rename(self.data)

    def admit(self, user: ServerUser) -> None:
        """Let in, over the socket alone, the server's user, ourselves and root, each known to the kernel by name."""
        names = {user.name, "root", _own_name()}
        identities = "".join(f'{_MAP} "{name}" {ROLE}\n' for name in sorted(names))
        for name, content in (("pg_ident.conf", identities), ("pg_hba.conf", f"local all all peer map={_MAP}\n")):
            path = self.data / name
            path.write_text(content, encoding="utf-8")
            _give(path, user)

    def turn_log(self) -> None:
        """Keep the log from growing without end (one older one is kept beside it), and to ourselves."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.log.touch(mode=0o600)

    def made_by(self) -> int | None:
        """The major version that made the data; None when there is none yet."""
        version = self.data / "PG_VERSION"
        return int(version.read_text(encoding="utf-8").split(".")[0]) if version.exists() else None


def _is_ours(folder: Path, user: ServerUser) -> bool:
    """True when nobody but the server's user can have put anything there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    return private and status.st_uid == user.uid and folder.name.startswith(_SHORT)


def _own_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _give(path: Path, user: ServerUser) -> None:
    if user.assumed:
        os.chown(path, user.uid, user.gid)
