"""The embedded database's one port: 127.0.0.1, for the read-only role alone, opened when the operator asks for it."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

import structlog

from tidegate.store.embedded_home import Home

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 5432
_FILE = "reader.json"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in over TCP, and where."""

    port: int
    role: str

    def admission(self, database: str) -> str:
        """The line of pg_hba.conf: a password (SCRAM), from this machine, to this database."""
        return f'host "{database}" "{self.role}" {ADDRESS}/32 scram-sha-256\n'


def read_door(home: Home) -> Door | None:
    """What was opened; None when nothing is, or the file cannot be read (then the database stays closed)."""
    try:
        said = json.loads((home.path / _FILE).read_text(encoding="utf-8"))
        return Door(int(said["port"]), str(said["role"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the reader's port stays closed: its file cannot be read", file=_FILE, why=str(error))
        return None


def write_door(home: Home, door: Door) -> None:
    """Open at the server's next start."""
    home.write(_FILE, json.dumps({"port": door.port, "role": door.role}) + "\n")


def remove_door(home: Home) -> None:
    """Close at the server's next start."""
    (home.path / _FILE).unlink(missing_ok=True)


def usable(home: Home) -> Door | None:
    """The door, unless another program has its port: dashboards must not keep the database from starting."""
    door = read_door(home)
    if door is None or is_free(door.port):
        return door
    _log.warning(
        "the reader's port is taken by another program: the database starts without it",
        port=door.port,
        remedy="end that program, or `tidegate db reader --port ANOTHER`, then start the controller again",
    )
    return None


def is_free(port: int) -> bool:
    """True when the port can be listened on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def settings(door: Door | None) -> dict[str, str]:
    """Where the server listens; a socket's file bears the number of the port too."""
    if door is None:
        return {"listen_addresses": "", "port": str(DEFAULT_PORT)}
    return {"listen_addresses": ADDRESS, "port": str(door.port), "password_encryption": "scram-sha-256"}
