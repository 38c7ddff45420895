"""Hand requests on to a server of this machine, as they came and as they are answered, a piece at a time.

Both directions at once: an answer that does not wait for the body is passed on before the body is sent, and who goes
away is gone for the other side too. A connection for each request: what comes this way is asked by people and programs,
some times a second.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import h11

from tidegate.link.asgi import Headers, Receive, Scope, Send, refuse
from tidegate.link.problems import Explained, Problem

_CONNECT_SECONDS = 5.0
_PIECE = 64 * 1024
_OF_ONE_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade"})
"""Of a request: said to us alone (RFC 9110, 7.6.1). How its body is framed is kept, and whether it expects a word."""
_OF_ITS_ANSWER = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"})
"""Our server frames and dates answers itself, and keeps its own connections."""
_AWAY = Explained(
    503, Problem(error="the controller does not answer", remedy="it starts or stops: try again"), {"Retry-After": "5"}
)
_MALFORMED = Explained(400, Problem(error="the request is not HTTP that can be handed on", remedy="mend its headers"))


class Forward:
    """An ASGI application in front of another one's Unix socket."""

    def __init__(self, address: bytes) -> None:
        """`address` as its socket says it; an unseen one begins with a zero byte."""
        self._address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; 503 where nobody is there to answer."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is handed on, not {scope['type']}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as there:
            there.settimeout(0)
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await asyncio.get_running_loop().sock_connect(there, self._address)
            except (OSError, TimeoutError):
                await refuse(send, _AWAY)
                return
            await _Exchange(there).carry(scope, receive, send)


class _Exchange:
    """One request and its answer. On a bare socket: asyncio's streams forget what was received when a write fails."""

    def __init__(self, there: socket.socket) -> None:
        self._there, self._loop = there, asyncio.get_running_loop()
        self._http = h11.Connection(h11.CLIENT)
        self._wanted = asyncio.Event()
        """Set when the body may be sent: at once, unless the client waits for a word of the other side."""

    async def carry(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends with the answer's end, or when the client has gone."""
        try:
            head = self._http.send(_request(scope))
        except h11.LocalProtocolError:
            await refuse(send, _MALFORMED)
            return
        with suppress(OSError):  # the answer tells what became of it
            await self._loop.sock_sendall(self._there, head or b"")
        if not any(name == b"expect" for name, _ in scope["headers"]):
            self._wanted.set()
        asking = asyncio.ensure_future(self._ask(receive, has_body=_has_body(scope["headers"])))
        answering = asyncio.ensure_future(self._answer(send))
        try:
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)

    async def _ask(self, receive: Receive, *, has_body: bool) -> None:
        """Send the body; returns when the client has gone."""
        await self._wanted.wait()
        more = has_body
        if not more:
            await self._say(h11.EndOfMessage())
        while (message := await receive())["type"] != "http.disconnect":
            if not more:
                continue
            if piece := message.get("body", b""):
                await self._say(h11.Data(data=piece))
            more = message.get("more_body", False)
            if not more:
                await self._say(h11.EndOfMessage())

    async def _say(self, event: h11.Event) -> None:
        with suppress(h11.LocalProtocolError, OSError):  # the answer tells what became of it
            await self._loop.sock_sendall(self._there, self._http.send(event) or b"")

    async def _answer(self, send: Send) -> None:
        begun = False
        try:
            while not isinstance(event := await self._event(), h11.EndOfMessage):
                if isinstance(event, h11.InformationalResponse):
                    self._wanted.set()
                elif isinstance(event, h11.Response):
                    begun = True
                    headers = [pair for pair in _plain(event.headers) if pair[0] not in _OF_ITS_ANSWER]
                    closes = [(b"connection", b"close")] if not self._wanted.is_set() else []
                    await send(_start(event.status_code, [*headers, *closes]))
                elif isinstance(event, h11.Data):
                    await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        except (h11.RemoteProtocolError, OSError):
            if begun:
                raise
            await refuse(send, _AWAY)
            return
        await send({"type": "http.response.body", "body": b""})

    async def _event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._loop.sock_recv(self._there, _PIECE))
        if not isinstance(event, h11.Event):
            raise h11.RemoteProtocolError("closed in the middle")
        return event


def _start(status: int, headers: Headers) -> dict[str, object]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def _plain(headers: object) -> Headers:
    return [(bytes(name), bytes(value)) for name, value in headers]  # type: ignore[attr-defined]


def _request(scope: Scope) -> h11.Request:
    """With a connection of its own, which ends with the answer."""
    kept = [pair for pair in scope["headers"] if pair[0] not in _OF_ONE_HOP]
    named = [] if any(name == b"host" for name, _ in kept) else [(b"host", b"controller")]
    path, query = scope["raw_path"], scope["query_string"]
    target = path + b"?" + query if query else path
    return h11.Request(method=scope["method"], target=target, headers=[*named, *kept, (b"connection", b"close")])


def _has_body(headers: Headers) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers)
