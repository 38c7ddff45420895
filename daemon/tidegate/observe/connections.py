"""Connections to engines, kept apart by whose certificates are trusted."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

import httpcore

from tidegate.model.target import EngineTarget
from tidegate.runtime.web import Stamp, stamp


class Connections:
    """One pool for each file of authorities, made when it is first needed; several threads may use it at once."""

    def __init__(self, backend: httpcore.NetworkBackend, keep_alive_seconds: float) -> None:
        self._backend, self._keep_alive = backend, keep_alive_seconds
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, bool], tuple[Stamp, httpcore.ConnectionPool]] = {}

    def pool(self, target: EngineTarget) -> httpcore.ConnectionPool:
        """The pool that trusts as the target says; raises OSError when its file of authorities cannot be used."""
        trust = (target.ca_file, target.verify)
        now = stamp((Path(target.ca_file),) if target.ca_file else ())
        with self._lock:
            known, pool = self._pools.get(trust, ((), None))
            if pool is not None and known == now:
                return pool
            fresh = self._new(target)
            self._pools[trust] = (now, fresh)
        if pool is not None:  # the file was replaced: what was trusted by the old one is so no more
            pool.close()
        return fresh

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for _, pool in self._pools.values():
                pool.close()
            self._pools.clear()

    def _new(self, target: EngineTarget) -> httpcore.ConnectionPool:
        return httpcore.ConnectionPool(
            ssl_context=_context(target),
            max_connections=None,
            keepalive_expiry=self._keep_alive,
            network_backend=self._backend,
        )


def _context(target: EngineTarget) -> ssl.SSLContext | None:
    """None stands for the library's own: the authorities of the system, and those that travel with it."""
    if not target.verify:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    if not target.ca_file:
        return None
    try:
        return ssl.create_default_context(cafile=target.ca_file)
    except OSError as error:
        raise OSError(f"its ca_file {target.ca_file} cannot be used: {error.strerror or error}") from error
