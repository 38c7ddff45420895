"""Stand before an ASGI application: ask for a password where the policy wants one, add its headers to every answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import MutableMapping
from typing import Any

from tidegate.runtime.passwords import Passwords, TooManyGuesses
from tidegate.runtime.serve import ASGIApp
from tidegate.runtime.web import OPEN_DOOR, WebPolicy

OPEN_PATHS = frozenset({"/-/healthy"})
"""Answered to everybody: it says nothing but that the process lives, and those who ask it rarely have a password."""

_LONGEST_HEADER = 8 * 1024
_CHALLENGE = (b"www-authenticate", b'Basic realm="tidegate", charset="UTF-8"')


class Guard:
    """The application behind a policy that may be replaced at any time."""

    def __init__(self, app: ASGIApp, policy: WebPolicy = OPEN_DOOR, passwords: Passwords | None = None) -> None:
        self._app, self._policy, self._passwords = app, policy, passwords or Passwords()

    def use(self, policy: WebPolicy) -> None:
        """Ask by this policy from the next request on."""
        self._policy = policy

    def close(self) -> None:
        """End the worker that checks passwords."""
        self._passwords.close()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        policy = self._policy
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        extra = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in policy.headers.items()]
        replaced = {name for name, _ in extra}

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and extra:
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in replaced]
                message = {**message, "headers": [*kept, *extra]}
            await send(message)

        refusal = await self._refusal(policy, scope)
        if refusal is None:
            await self._app(scope, receive, answer)
        else:
            await _say(answer, *refusal)

    async def _refusal(
        self, policy: WebPolicy, scope: MutableMapping[str, Any]
    ) -> tuple[int, bytes, tuple[bytes, bytes]] | None:
        if not policy.users or scope["path"] in OPEN_PATHS:
            return None
        given = credentials(scope.get("headers", ()))
        try:
            if given is not None and await self._passwords.right(policy.users, *given):
                return None
        except TooManyGuesses:
            return 503, b"too many wrong passwords at once: try again\n", (b"retry-after", b"5")
        return 401, b"unauthorized: give the user and password of the web configuration file\n", _CHALLENGE


def credentials(headers: Any) -> tuple[str, bytes] | None:
    """Name and password of a Basic `Authorization` header (RFC 7617); None when there is none that can be read."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1 or len(values[0]) > _LONGEST_HEADER:
        return None
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


async def _say(send: Any, status: int, body: bytes, header: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), header]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
