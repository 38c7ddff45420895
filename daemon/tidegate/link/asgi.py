"""The words of ASGI that raw handlers speak, and their answers (https://asgi.readthedocs.io, HTTP 2.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from tidegate.link.problems import Explained

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_UNREAD = (408, 413, 415)
"""After these the rest of a body may still be on its way: the connection cannot be used again."""


async def respond(send: Send, body: bytes, status: int = 200, headers: Headers = ()) -> None:
    """Answer with JSON, or with nothing at all where the body is empty."""
    kind = (_JSON, (b"content-length", str(len(body)).encode())) if body else ()
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *headers]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, found: Explained) -> None:
    """Answer with what is wrong and the remedy."""
    headers = [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
    if found.status in _UNREAD:
        headers.append((b"connection", b"close"))
    await respond(send, found.problem.model_dump_json().encode(), found.status, headers)
