"""As whom the embedded Postgres runs (it refuses root), and what that user can reach."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.errors import Permanent

NAME = "tidegate"
_FALLBACKS = ("postgres", "nobody", "daemon")
_USERADD_SECONDS = 20


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The system user of the server process."""

    name: str
    uid: int
    gid: int
    assumed: bool
    """True when we are root and become this user for the server alone."""


def server_user(data: Path) -> ServerUser:
    """Ourselves; as root the owner of the data if there is any, else a system user `tidegate`, made when possible.

    Raises Permanent when there is no user that could be used.
    """
    own = os.geteuid()
    if own != 0:
        return _ordinary(data, own)
    if data.exists() and data.stat().st_uid != 0:
        return _named(data.stat().st_uid, f"the owner of {data}")
    if _entry(NAME) is None:
        _add_user()
    for name in (NAME, *_FALLBACKS):
        entry = _entry(name)
        if entry is not None and entry.pw_uid != 0:
            return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid, assumed=True)
    raise Permanent(
        f"the embedded database cannot run as root and no system user could be made; run `useradd --system {NAME}`, "
        "or start tidegate as an ordinary user"
    )


def _ordinary(data: Path, uid: int) -> ServerUser:
    if data.exists() and data.stat().st_uid != uid:
        raise Permanent(
            f"{data} belongs to user id {data.stat().st_uid}, we are {uid}: start tidegate as its owner or as root"
        )
    user = _named(uid, "this process")
    return ServerUser(user.name, uid, os.getegid(), assumed=False)


def _named(uid: int, whose: str) -> ServerUser:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise Permanent(
            f"the user id {uid} of {whose} has no name on this system, and Postgres needs one: add it to /etc/passwd"
        ) from None
    return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid, assumed=True)


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _add_user() -> None:
    """Make the system user; where that fails (no such command, read-only /etc) an existing one has to do."""
    command = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if command is None:
        return
    options = ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    try:
        subprocess.run([command, *options, NAME], check=False, capture_output=True, timeout=_USERADD_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return


def barrier(path: Path, user: ServerUser) -> Path | None:
    """The outermost folder on the way to `path` (itself included) that the user may not enter; None when free.

    Judged by the permission bits: a stricter rule (an access list, a security module) shows when the server starts.
    """
    resolved = path.resolve()
    for folder in (*reversed(resolved.parents), resolved):
        if folder.is_dir() and not _may(folder.stat(), user, stat.S_IXOTH):
            return folder
    return None


def readable(paths: Iterable[Path], user: ServerUser) -> bool:
    """True when the user may read every one of the files and enter the folders on the way."""
    return all(
        path.exists() and barrier(path.parent, user) is None and _may(path.stat(), user, stat.S_IROTH) for path in paths
    )


def _may(status: os.stat_result, user: ServerUser, bit: int) -> bool:
    if user.uid == status.st_uid:
        return bool(status.st_mode & bit << 6)
    if user.gid == status.st_gid:
        return bool(status.st_mode & bit << 3)
    return bool(status.st_mode & bit)
