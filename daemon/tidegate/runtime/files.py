"""Files that a daemon owns: replaced in one step, so that a crash leaves the old or the new; one daemon a folder."""

from __future__ import annotations

import errno
import fcntl
import os
from io import FileIO
from pathlib import Path

from tidegate.runtime.errors import ConfigError, Permanent


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, readable by its owner alone and on disk when this returns; raises OSError."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def claim(folder: Path, setting: str) -> FileIO:
    """Make the folder and hold it for this process until the answer is closed.

    Raises ConfigError naming `setting` when the folder cannot be written, Permanent when another daemon holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileIO(folder / "lock", "a+")
    except OSError as error:
        raise _unwritable(folder, setting, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):  # the lock may lie there from a time when it could be written
        lock.close()
        raise _unwritable(folder, setting, os.strerror(errno.EACCES))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise Permanent(f"another daemon uses {folder}; stop it or set another {setting}") from error
    return lock


def _unwritable(folder: Path, setting: str, why: str) -> ConfigError:
    remedy = f"give it to user {os.geteuid()} or set another {setting}"
    return ConfigError(f"{setting}: {folder} cannot be written ({why}); {remedy}")
