"""The agent's end of the wire: one kept-alive connection that delivers reports and waits for desired state."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tidegate import __version__
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.loopback import is_loopback
from tidegate.wire import MAX_BODY_BYTES, Answer, Batch, Desired

_Message = TypeVar("_Message", bound=BaseModel)

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_MAX_WAIT_SECONDS = 25.0
"""What the controller grants at most; below the idle time-outs of common proxies."""
_ANSWER_BYTES = 4 * 1024 * 1024
_WAITING_HELPS = frozenset({408, 425, 429})


class HttpControllerLink:
    """The `ControllerLink` to one controller. Safe for a reporting and a polling thread at once."""

    def __init__(self, base_url: str, token: str, host: str, clock: Clock) -> None:
        """Raises Permanent when the token would travel in the clear."""
        self._name = base_url.rstrip("/")
        self._host, self._clock = host, clock
        _check_address(self._name)
        self._client = httpx.Client(
            base_url=self._name,
            headers={
                "Authorization": f"Bearer {token}",
                "User-Agent": f"tidegate-agent/{__version__}",
                "Accept-Encoding": "identity",
            },
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=2, keepalive_expiry=60.0),
            follow_redirects=False,
            trust_env=False,
        )

    def report(self, batch: Batch) -> Answer:
        """Deliver a batch; raises Transient (try again) or Permanent (this batch or token will never do)."""
        body = batch.model_dump_json(exclude_defaults=False).encode()
        if len(body) > MAX_BODY_BYTES:
            raise Permanent(f"{self._name}: a batch of {len(body)} bytes is more than a controller takes")
        request = self._client.build_request(
            "POST", "/v1/report", content=body, headers={"Content-Type": "application/json"}
        )
        status, answer = self._send(request)
        if status != 200:
            raise self._refused(status, answer)
        return self._parsed(Answer, answer)

    def desired(self, after_epoch: int, after_revision: int, wait: timedelta) -> Desired | None:
        """Long-poll for a newer desired state; None when nothing changed in time. Raises like `report`."""
        seconds = min(_MAX_WAIT_SECONDS, self._clock.real_seconds(wait))
        request = self._client.build_request(
            "GET",
            "/v1/desired",
            params={"after": after_revision, "after_epoch": after_epoch, "wait": round(seconds, 3)},
            timeout=httpx.Timeout(seconds + _ANSWER_SECONDS, connect=_CONNECT_SECONDS),
        )
        status, answer = self._send(request)
        if status == 204:
            return None
        if status != 200:
            raise self._refused(status, answer)
        return self._parsed(Desired, answer)

    def close(self) -> None:
        """Close the connections; a request under way ends with Transient."""
        self._client.close()

    def _send(self, request: httpx.Request) -> tuple[int, bytes]:
        try:
            response = self._client.send(request, stream=True)
            try:
                return response.status_code, self._bounded(response)
            finally:
                response.close()
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise Transient(f"{self._name}: no answer from the controller ({said})") from error
        except RuntimeError as error:
            # httpx's word for a client that `close` took away meanwhile.
            raise Transient(f"{self._name}: the connection was closed") from error

    def _bounded(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _ANSWER_BYTES:
                raise Transient(f"{self._name}: an answer of over {_ANSWER_BYTES} bytes is no controller's")
        return bytes(body)

    def _refused(self, status: int, body: bytes) -> Transient | Permanent:
        said = _problem(body)
        where = f"{self._name} answered {status}"
        if status in (401, 403):
            return Permanent(
                f"{where}{said}; give this host a token with `tidegate host enroll {self._host}` on the controller, "
                f"put it into the agent's token_file and reload"
            )
        if 300 <= status < 400:
            return Permanent(f"{where}: it redirects; put the final address into [agent] controllers")
        if status == 404:
            return Permanent(f"{where}{said}; is [agent] controllers the address of a Tidegate controller?")
        if status >= 500 or status in _WAITING_HELPS:
            return Transient(f"{where}{said}")
        return Permanent(f"{where}{said}")

    def _parsed(self, kind: type[_Message], body: bytes) -> _Message:
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the body"
            raise Transient(
                f"{self._name}: the answer is not a controller's ({place}: {first['msg']}); "
                f"is something else listening there, or the controller older than this agent?"
            ) from error


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise Permanent(f"[agent] controllers: {url!r} is not an http or https address")
    if parts.scheme == "http" and not is_loopback(host):
        raise Permanent(
            f"[agent] controllers: {url} would carry this host's token in the clear; use https:// beyond loopback"
        )


def _problem(body: bytes) -> str:
    """What the controller says is wrong, in one line; empty when it does not say."""
    try:
        problem = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(problem, dict) or not isinstance(problem.get("error"), str):
        return ""
    places = problem.get("places") or []
    first = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else {}
    parts = [
        problem["error"],
        problem.get("remedy") or "",
        f"{first.get('place')}: {first.get('problem')}" if first else "",
    ]
    text = "; ".join(str(part) for part in parts if part)
    return ": " + "".join(character if character.isprintable() else " " for character in text)[:500]
