"""Who this controller is in an election: the same after a restart, and no other's."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from tidegate.model.leadership import Candidate
from tidegate.runtime.errors import Permanent
from tidegate.runtime.files import replace_file
from tidegate.runtime.loopback import is_loopback

FILE_NAME = "controller.id"


def candidate(state_dir: Path, host: str, port: int) -> Candidate:
    """The identity kept in the state folder, with the machine's name: a copied machine is another candidate.

    Raises Permanent when the file can neither be read nor written.
    """
    path, machine = state_dir / FILE_NAME, socket.gethostname()
    try:
        if not path.exists():
            replace_file(path, f"{secrets.token_hex(16)}\n".encode())
        own = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}; give the controller's user its state folder") from error
    known_as = machine if is_loopback(host) or host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return Candidate(f"{machine}/{own}", f"[{known_as}]:{port}" if ":" in known_as else f"{known_as}:{port}")
