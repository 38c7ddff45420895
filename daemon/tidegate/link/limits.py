"""Bounds on what a client may send: a body over its cap is refused while it is read, a slow one after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tidegate.link.asgi import App, Message, Receive, Scope, Send, refuse
from tidegate.link.problems import Explained, Refused

SMALL_BODY_BYTES = 64 * 1024
LIST_BODY_BYTES = 8 * 1024 * 1024
_LISTS = ("/v1/bills", "/v1/prices")
"""Commands that name many things: the parts of a delivery, a list of prices."""
UPLOADS = "/v1/bills/files/"
UPLOAD_BYTES = 16 * 1024**3
UPLOAD_SECONDS = 3600.0
"""Bill files are streamed to disk; nobody without an operator's token gets that far."""
BODY_SECONDS = 30.0
"""Real seconds that a whole body may take."""


class BodyLimit:
    """ASGI middleware: caps the body by path and the time that it takes, before anything parses it."""

    def __init__(self, app: App, seconds: float = BODY_SECONDS) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; answers 413 to a declared excess and 415 to a compressed body by itself."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        cap, seconds = self._bounds(scope["path"])
        refused = check_headers(dict(scope["headers"]), cap)
        if refused is None:
            await self._app(scope, Capped(receive, cap, seconds), send)
        else:
            await refuse(send, Explained(refused.status, refused.problem))

    def _bounds(self, path: str) -> tuple[int, float]:
        """How large a body may be, and how long it may take."""
        if path.startswith(UPLOADS):
            return UPLOAD_BYTES, UPLOAD_SECONDS
        return (LIST_BODY_BYTES if path in _LISTS else SMALL_BODY_BYTES), self._seconds


def _nobody() -> None:
    """A command that is too large is told so, and nobody else."""


class Capped:
    """A `receive` that counts, and raises `Refused` where the application reads too much or too long."""

    def __init__(self, receive: Receive, cap: int, seconds: float, on_too_large: Callable[[], None] = _nobody) -> None:
        self._receive, self._cap, self._seconds, self._on_too_large = receive, cap, seconds, on_too_large
        self._left, self._complete = cap, False
        self._until: float | None = None

    async def __call__(self) -> Message:
        """The next message of the request."""
        if self._complete:  # what follows the body is the wait for a disconnect: no time limit on that
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._until = self._until or loop.time() + self._seconds  # of the whole: a body may come in many small parts
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "the body did not arrive in time", "send it in one go") from None
        self._left -= len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._left < 0:
            self._on_too_large()
            raise _too_large(self._cap)
        return message


def check_headers(headers: Mapping[bytes, bytes], cap: int) -> Refused | None:
    """What is wrong with a request before its body is read."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > cap:
        return _too_large(cap)
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        return Refused(415, "compressed bodies are not read", "send the body as plain JSON")
    return None


def _too_large(cap: int) -> Refused:
    return Refused(413, f"the body is larger than {cap} bytes", "send fewer reports in one batch")
