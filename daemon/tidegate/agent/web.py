"""Keep who may read the agent's pages as the web configuration file says it, while the agent runs."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from tidegate.config.web_file import read_web_file
from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.runtime.web import OPEN_DOOR, Stamp, WebPolicy, server_context, stamp

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Doors:
    """What obeys the policy: the TLS of new connections, and the answers."""

    tls: Callable[[ssl.SSLContext | None], None]
    """Raises Permanent when no server can be started; the old one then stays."""
    policy: Callable[[WebPolicy], None]


class WebWatch:
    """Applies the file at first, and whenever it or one of the files that it names changes. For any thread."""

    def __init__(self, path: Path | None, doors: Doors) -> None:
        self._path, self._doors = path, doors
        self._policy = OPEN_DOOR
        self._seen: _Seen | None = None
        """What is in force; None while the file on disk is not."""
        self._refused = ""
        self._lock = threading.Lock()

    @property
    def ok(self) -> bool:
        """False while the file on disk is not the one in force."""
        return not self._refused

    def begin(self) -> None:
        """Apply the file before the server starts; raises ConfigError when it cannot be honoured."""
        self._apply()

    def use(self, path: Path | None) -> None:
        """Watch this file from now on; the next `look` applies it."""
        self._path = path

    def look(self) -> None:
        """Apply what changed; what cannot be honoured is said once, and what is in force stays."""
        with self._lock:
            if self._seen != _Seen.now(self._path, self._policy):
                self._look()

    def _look(self) -> None:
        try:
            self._apply()
        except (ConfigError, Permanent) as error:
            # Looked at again each time: what it misses may lie in a file that is not there yet.
            self._seen = None
            if str(error) != self._refused:
                _log.error("web configuration refused, the running one stays", error=str(error))
            self._refused = str(error)
        else:
            self._refused = ""
            _log.info("web configuration applied", file=str(self._path), tls=self._policy.tls is not None)

    def _apply(self) -> None:
        # Stamped before reading: what is written meanwhile is a change to the next look.
        own = stamp((self._path,) if self._path is not None else ())
        fresh = read_web_file(self._path) if self._path is not None else OPEN_DOOR
        seen = _Seen(self._path, own, stamp(fresh.tls.files) if fresh.tls is not None else ())
        context = server_context(fresh.tls) if fresh.tls is not None else None
        before = self._seen
        if fresh.tls != self._policy.tls or (context is not None and (before is None or before.named != seen.named)):
            self._doors.tls(context)
        self._doors.policy(fresh)
        self._policy, self._seen = fresh, seen


@dataclass(frozen=True, slots=True)
class _Seen:
    """Which files a policy was made of."""

    path: Path | None
    own: Stamp
    named: Stamp

    @classmethod
    def now(cls, path: Path | None, policy: WebPolicy) -> _Seen:
        """The files as they are now."""
        named = stamp(policy.tls.files) if policy.tls is not None else ()
        return cls(path, stamp((path,) if path is not None else ()), named)
