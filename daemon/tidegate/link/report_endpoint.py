"""What agents ask, a hundred times a second where they are thousands: reports, and what they should run.

Plain ASGI: the way through a framework's routes and dependencies costs more than what is done here. Everything else
that is asked goes to `rest`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import parse_qsl

import structlog
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from tidegate.link.agent_api import AgentApi
from tidegate.link.asgi import App, Receive, Scope, Send, refuse, respond
from tidegate.link.bell import Bell
from tidegate.link.limits import BODY_SECONDS, Capped, check_headers
from tidegate.link.problems import Refused, explain, places
from tidegate.link.report_desk import ReportDesk
from tidegate.model.reading import HostName
from tidegate.runtime.tokens import token_hash
from tidegate.wire import MAX_BODY_BYTES, Desired

_log = structlog.get_logger()

REPORT, DESIRED = "/v1/report", "/v1/desired"
MAX_WAIT_SECONDS = 25.0
"""Below the idle time-out of common proxies (60 s) and of the agent's own client."""
_Counted = Annotated[int, Field(ge=0, lt=2**63)]
_Work = Callable[[Scope, Receive, Send], Awaitable[None]]


class Position(BaseModel):
    """What an agent asks `/v1/desired` with: where it stands, and how many real seconds it would wait for news."""

    after: _Counted = 0
    after_epoch: _Counted = 0
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0.0


class ReportEndpoint:
    """An ASGI application; `stop` of its server is quick once the bell is closed."""

    def __init__(self, agents: AgentApi, bell: Bell, rest: App) -> None:
        self._agents, self._bell, self._rest = agents, bell, rest
        self._desk = ReportDesk(agents)
        self._works: dict[str, tuple[str, _Work]] = {REPORT: ("POST", self._report), DESIRED: ("GET", self._desired)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        found = self._works.get(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._rest(scope, receive, send)
            return
        method, work = found
        try:
            if scope["method"] != method:
                raise Refused(405, f"{scope['path']} takes {method} alone", f"send {method}", headers={"Allow": method})
            await work(scope, receive, send)
        except Exception as error:
            if (explained := explain(error)) is None:
                raise
            if explained.status == 500:
                _log.error("request failed", path=scope["path"], error=str(error))
            await refuse(send, explained)

    async def _report(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a batch of reports. The same batch twice is stored once; what is acknowledged may be forgotten."""
        headers = dict(reversed(scope["headers"]))  # of two by one name the first
        refused = check_headers(headers, MAX_BODY_BYTES)
        if refused is not None:
            if refused.status == 413:
                self._too_large()
            raise refused
        host = await self._host(headers)
        body = await _body(Capped(receive, MAX_BODY_BYTES, BODY_SECONDS, self._too_large))
        await respond(send, await self._desk.take(host, body, self._agents.now()))

    async def _desired(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """The host's desired state once it is newer than where the agent stands; waits for it."""
        host = await self._host(dict(reversed(scope["headers"])))
        newer = await self._newer(host, _position(scope["query_string"]))
        await (respond(send, b"", 204) if newer is None else respond(send, newer.model_dump_json().encode()))

    async def _host(self, headers: dict[bytes, bytes]) -> HostName:
        """Whose token was sent; 401 when it is nobody's or revoked."""
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        given = bool(token) and scheme.lower() == "bearer"
        host = None
        if given:  # a thread only for a question to the database
            hashed = token_hash(token)
            host = self._agents.trusted_host(hashed) or await run_in_threadpool(self._agents.host_of, hashed)
        if host is None:
            self._agents.refused("unauthorized")
            raise Refused(
                401,
                "no host has this token" if given else "a host token is needed",
                "`tidegate host enroll NAME` prints one; put it into the agent's token_file",
            )
        return host

    async def _newer(self, host: HostName, asked: Position) -> Desired | None:
        loop = asyncio.get_running_loop()
        until = end_of_wait(host, loop.time(), asked.wait)
        while True:
            event = self._bell.listen(host)
            try:
                found = self._agents.known_desired(host)
                if found is None:
                    found = await run_in_threadpool(self._agents.desired, host)
                if (found.epoch, found.revision) > (asked.after_epoch, asked.after):
                    return found
                if self._bell.closed or loop.time() >= until:
                    return None
                timer = loop.call_at(until, event.set)
                await event.wait()
                timer.cancel()
            finally:
                self._bell.leave(host, event)

    def _too_large(self) -> None:
        self._agents.refused("too_large")


def end_of_wait(host: HostName, now: float, wait: float) -> float:
    """When a poll that begins now ends at the latest: after a quarter of `wait` to all of it, at the host's own place.

    All hosts come at once after a restart. With the same wait for all they would do so for ever after; this way they
    have found their places at the second poll, and wait the whole time from the third.
    """
    if wait <= 0:
        return now
    place = zlib.crc32(host.encode()) / 2**32 * wait
    left = (place - now) % wait
    return now + (left if left >= wait / 4 else left + wait / 2)


async def _body(receive: Receive) -> bytes:
    """The raw body; its size and time are bounded by `receive`."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the client went away in the middle of the body", "send it again")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _position(query: bytes) -> Position:
    words = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    try:
        return Position.model_validate(dict(words))
    except ValidationError as error:
        found = places([{**one, "loc": ("query", *one["loc"])} for one in error.errors(include_context=False)])
        raise Refused(422, "the request is not valid", "see `places`", found) from error
