"""The embedded database's folder: who may enter, its locks, its log.

As root we write in the folder itself alone, never in what belongs to the server's user, and follow no link there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.errors import Permanent, Transient
from tidegate.store.embedded_user import ServerUser, barrier

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
        """Make the folder; raises Permanent when the server's user cannot get there.

        No permission of a folder that is there already is changed.
        """
        mode = 0o711 if user.assumed else 0o700
        try:
            for folder in (self.path.parent, self.path):
                if not folder.exists():
                    folder.mkdir(parents=True)
                    folder.chmod(mode)
        except OSError as error:
            raise Permanent(f"the state folder {self.path.parent} cannot be used: {error}") from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            owner = self.path.stat().st_uid
            raise Permanent(
                f"{self.path} belongs to user id {owner}, we are {os.geteuid()}: start tidegate as its owner or as root"
            )
        blocked = barrier(self.path, user) if user.assumed else None
        if blocked is not None:
            raise Permanent(
                f"the database runs as the system user {user.name}, who may not enter {blocked}: set `state_dir` to a "
                f"folder that he can reach (such as /var/lib/tidegate), or run `chmod o+x {blocked}`"
            )

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None) -> Iterator[None]:
        """Hold a lock file; with `wait` None a held one raises Transient at once, else it is called between tries."""
        file = self.open(name, os.O_RDWR)
        try:
            while not _held(file):
                if wait is None:
                    raise Transient(f"{self.path / name} is held by another process")
                wait()
            yield
        finally:
            os.close(file)

    def write(self, name: str, content: str) -> Path:
        """Put a file that the server reads, and nobody but us writes."""
        with os.fdopen(self.open(name, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as out:
            os.fchmod(out.fileno(), 0o644)  # whatever our umask is
            out.write(content)
        return self.path / name

    def open_log(self) -> int:
        """A descriptor that appends to the log; one that has grown long is put aside first, over an older one."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        return self.open(self.log.name, os.O_WRONLY | os.O_APPEND)

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in the folder, made if need be, and the folder's owner's as everything here."""
        file = os.open(self.path / name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        owner = self.path.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.fchown(file, owner.st_uid, owner.st_gid)
        return file


def _held(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
