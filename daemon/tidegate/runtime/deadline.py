"""Connections that end when a thread's deadline does, whatever the other side trickles.

An HTTP client's own time-outs bound each read; a server that sends a byte a second passes them all. Here every step
(connect, TLS, write, read) gets what is left of the whole. Looking up a host's name is the one step that the
operating system bounds.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore

from tidegate.runtime.clock import SystemClock

_REAL = SystemClock()
"""Deadlines are real seconds, also where the agent's clock is played fast."""

_SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class Deadline:
    """How long the calling thread has left; without `within` it has no time at all."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give the calling thread so many real seconds for everything in the block."""
        self._thread.end = _REAL.monotonic() + seconds
        try:
            yield
        finally:
            del self._thread.end

    def left(self, why: type[httpcore.TimeoutException]) -> float:
        """The seconds left; raises `why` when there are none."""
        seconds: float = getattr(self._thread, "end", 0.0) - _REAL.monotonic()
        if seconds <= 0:
            raise why("the deadline passed")
        return seconds


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline stands instead
        return self._inner.read(max_bytes, self._deadline.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._inner.write(buffer, self._deadline.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class DeadlineBackend(httpcore.NetworkBackend):
    """The network under an httpcore pool."""

    def __init__(self, deadline: Deadline) -> None:
        self._inner, self._deadline = httpcore.SyncBackend(), deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002
        local_address: str | None = None,
        socket_options: Iterable[_SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect within the calling thread's deadline."""
        left = self._deadline.left(httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options), self._deadline)
