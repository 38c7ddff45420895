"""Hand requests on to a server of this machine, as they came and as they are answered, a piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpcore

from tidegate.link.asgi import Headers, Receive, Scope, Send, refuse
from tidegate.link.problems import Explained, Problem

_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 20.0
"""Connections are given up before the other side gives them up."""
_OF_ONE_HOP = frozenset({b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect"})
"""Of a request: said to us alone (RFC 9110, 7.6.1). How a body is framed is kept; `Expect` was met by our server."""
_OF_ITS_ANSWER = frozenset({b"keep-alive", b"transfer-encoding", b"date", b"server"})
"""Our server frames and dates answers itself; it is told when the connection shall be closed."""
_AWAY = Explained(
    503, Problem(error="the controller does not answer", remedy="it starts or stops: try again"), {"Retry-After": "5"}
)


class Forward:
    """An ASGI application in front of another one's Unix socket; made and used in one event loop."""

    def __init__(self, address: bytes) -> None:
        """`address` as its socket says it; an unseen one begins with a zero byte."""
        self._pool = httpcore.AsyncConnectionPool(
            uds=address.decode(), max_connections=None, max_keepalive_connections=20, keepalive_expiry=_IDLE_SECONDS
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; 503 where the other side does not answer at all."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is handed on, not {scope['type']}")
        begun = False
        try:
            async with self._pool.stream(
                scope["method"],
                httpcore.URL(scheme=b"http", host=b"controller", port=None, target=_target(scope)),
                headers=[pair for pair in scope["headers"] if pair[0] not in _OF_ONE_HOP | {b"connection"}],
                content=_parts(receive) if _has_body(scope["headers"]) else None,
                extensions={"timeout": {"connect": _CONNECT_SECONDS}},
            ) as answer:
                begun = True
                await _pass_on(answer, send)
        except _GoneError:
            return
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
            if begun:
                raise
            await refuse(send, _AWAY)


class _GoneError(Exception):
    """The client has gone away in the middle of its body."""


async def _pass_on(answer: httpcore.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in answer.headers]
    kept = [(name, value) for name, value in headers if name not in _OF_ITS_ANSWER]
    await send({"type": "http.response.start", "status": answer.status, "headers": kept})
    async for part in answer.aiter_stream():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            return


def _target(scope: Scope) -> bytes:
    path, query = scope["raw_path"], scope["query_string"]
    return bytes(path + b"?" + query if query else path)


def _has_body(headers: Headers) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers)
