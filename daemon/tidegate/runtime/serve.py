"""Serve an ASGI application on a thread: uvicorn, which spends no thread on an idle connection."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from tidegate.runtime.errors import Permanent
from tidegate.runtime.niceness import stand_back

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]

_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_GRACE_SECONDS = 3
_GOODBYE_SECONDS = 0.2
_TICK_SECONDS = 1.0
_MOST_CONNECTIONS = 20_000
"""Two of each agent's, a report's and a long poll's, which costs neither a thread nor much else; beyond it 503."""
_BACKLOG = 2_048
"""After an outage everybody comes at once."""


Bind = Callable[[str], socket.socket]
"""Gives the server of this name a socket that listens; raises Permanent with the address and the remedy."""


class HttpServer:
    """One listening socket. `start` returns once it accepts; `stop` lets answers under way finish."""

    def __init__(
        self, app: ASGIApp, bind: Bind, name: str, tls: ssl.SSLContext | None = None, *, back: int = 0
    ) -> None:
        """`bind`: such as `tcp(...)` or `unseen`; it is asked at the start. `back`: how much nicer its threads are."""
        self._app, self._bind, self._name, self._tls, self._back = app, bind, name, tls, back
        self._socket: socket.socket | None = None
        self._turn: _Turn | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, from the start on."""
        return int(self.address[1])

    @property
    def address(self) -> Any:
        """Where it listens, as its socket says it (socket(2)); raises RuntimeError before the start."""
        if self._socket is None:
            raise RuntimeError(f"{self._name}: it does not listen yet")
        return self._socket.getsockname()

    def start(self) -> None:
        """Bind and serve; raises Permanent naming the address and the remedy when it cannot be had."""
        self._socket = self._bind(self._name)
        self._turn = self._begin(self._socket)

    def renew(self, tls: ssl.SSLContext | None) -> None:
        """Serve new connections with this TLS (None: plain), the old ones to their end; no connection is refused.

        Before `start` it is only noted. Raises Permanent when no server can be started; the old one then stays.
        """
        before, listening = self._tls, self._socket
        self._tls = tls
        if listening is None:
            return
        try:
            fresh = self._begin(listening)
        except Permanent:
            self._tls = before
            raise
        if self._turn is not None:
            self._turn.end()
        self._turn = fresh

    def stop(self) -> None:
        """Stop listening and wait a moment for answers under way."""
        if self._turn is not None:
            self._turn.end()
        if self._socket is not None:
            self._socket.close()

    def _begin(self, listening: socket.socket) -> _Turn:
        turn = _Turn(self._app, self._tls, listening, self._name, self._back)
        if not turn.begin():
            raise Permanent(f"{self._name}: the HTTP server on {listening.getsockname()} did not start")
        return turn


class _Turn:
    """One uvicorn on one thread, over a descriptor of its own for a listening socket that outlives it."""

    def __init__(
        self, app: ASGIApp, tls: ssl.SSLContext | None, listening: socket.socket, name: str, back: int
    ) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            limit_concurrency=_MOST_CONNECTIONS,
            backlog=_BACKLOG,
            h11_max_incomplete_event_size=64 * 1024,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config)
        self._listening, self._back = listening.dup(), back
        self._thread = threading.Thread(target=self._serve, name=f"http {name}", daemon=True)

    def begin(self) -> bool:
        """Serve; False when that fails."""
        self._thread.start()
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            self._thread.join(0.01)
        if not self._server.started:
            self._listening.close()
        return self._server.started

    def end(self) -> None:
        """Take no more connections, and wait a moment for answers under way."""
        self._server.end()
        self._thread.join(_STOP_SECONDS)
        self._listening.close()

    def _serve(self) -> None:
        stand_back(self._back)
        # Signals belong to runtime/lifecycle.py: off the main thread uvicorn leaves them alone.
        asyncio.run(self._server.serve(sockets=[self._listening]))


class _Server(uvicorn.Server):
    """Sleeps while nobody asks, and does not wait at the end for idle TLS clients to say goodbye too.

    uvicorn looks ten times a second whether it should end, which costs as much as all scrapes; a scraper over TLS
    never says goodbye.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Stop serving; for any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ended.set)

    async def main_loop(self) -> None:
        """As uvicorn does it, once a second: so often the date in its headers changes."""
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it."""
        hanging_up = asyncio.ensure_future(self._hang_up())
        await super().shutdown(sockets)
        await hanging_up

    async def _hang_up(self) -> None:
        await asyncio.sleep(_GOODBYE_SECONDS)
        for _ in range(int(_GRACE_SECONDS / 0.05)):
            if not self.server_state.tasks:
                break
            await asyncio.sleep(0.05)
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()


def check_free(host: str, port: int, name: str) -> None:
    """Raise Permanent, as `HttpServer.start` would, when the address cannot be had now; for a look before long work."""
    tcp(host, port)(name).close()


def raise_file_limit() -> None:
    """Let this process have many connections: each is an open file, and 1,024 is only the soft limit (setrlimit(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * _MOST_CONNECTIONS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def tcp(host: str, port: int) -> Bind:
    """A port (0: any that is free) of an address of this machine."""
    return partial(_bind, host, port)


def unseen(_name: str) -> socket.socket:
    """An address that the kernel makes up, for processes of this machine alone: no file and no port (unix(7))."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("")
    listening.listen(_BACKLOG)
    return listening


def _bind(host: str, port: int, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or asyncio leaves Nagle's algorithm on: it holds up the second piece of an answer by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Permanent(_why(error, host, port, name)) from error
    listening.set_inheritable(False)
    return listening


def _why(error: OSError, host: str, port: int, name: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{name}: port {port} on {host} is taken by another program "
            f"(find it with `ss -ltnp 'sport = :{port}'`); stop it or set another `listen` address"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{name}: {host} is not an address of this machine; set `listen` to one that is"
    if error.errno == errno.EACCES:
        return f"{name}: port {port} needs privileges; set `listen` to a port above 1023"
    return f"{name}: cannot listen on {host}:{port}: {error.strerror or error}"
