"""The command line's end of /v1: a few calls with an operator's token."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tidegate.link.messages import (
    EnrolledShape,
    HostAction,
    HostCommand,
    Role,
    TokenShape,
    UserCommand,
)
from tidegate.link.query_messages import HistoryShape, QueryForm
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.loopback import is_loopback

TIMEOUT_SECONDS = 15.0

S = TypeVar("S", bound=BaseModel)


class CommandClient:
    """Commands a controller. Every error is one line with the remedy."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        self._url, self._token_file = url.rstrip("/"), token_file

    def host(self, action: HostAction, name: str) -> TokenShape:
        """Enroll, rotate or revoke a host."""
        return read(TokenShape, self._call("POST", "/v1/hosts", _command(HostCommand, action=action, name=name)))

    def hosts(self) -> list[EnrolledShape]:
        """Every host that was ever enrolled."""
        try:
            return [EnrolledShape.model_validate(found) for found in self._call("GET", "/v1/hosts").json()]
        except ValueError as error:
            raise Permanent(f"{self._url} does not answer as a Tidegate controller does: {error}") from error

    def user(self, name: str, role: Role) -> TokenShape:
        """Add a user, or give him another token."""
        return read(TokenShape, self._call("POST", "/v1/users", _command(UserCommand, name=name, role=role)))

    def history(self, form: QueryForm) -> HistoryShape:
        """The past of the series asked for."""
        asked = form.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return read(HistoryShape, self._call("GET", f"/v1/query?{urlencode(asked, doseq=True)}"))

    def _call(self, method: str, path: str, command: BaseModel | None = None) -> httpx.Response:
        return self.call(method, path, command.model_dump_json() if command else None)

    def call(
        self,
        method: str,
        path: str,
        body: str | Iterable[bytes] | None = None,
        *,
        seconds: float = TIMEOUT_SECONDS,
        kind: str = "application/json",
    ) -> httpx.Response:
        """One request; with a body it carries the operator's token. `seconds`: how long each step of it may take."""
        headers = {"Content-Type": kind} | (self._authorization() if body is not None else {})
        try:
            with httpx.Client(timeout=seconds, trust_env=False) as client:
                answer = client.request(method, f"{self._url}{path}", content=body, headers=headers)
        except httpx.InvalidURL as error:
            raise Permanent(f"--controller {self._url}: {error}; write http://HOST:PORT") from error
        except httpx.HTTPError as error:
            raise Transient(
                f"the controller at {self._url} does not answer ({error}); is it running? --controller names another"
            ) from error
        if not answer.is_success:
            raise Permanent(_refusal(answer, self._url))
        return answer

    def _authorization(self) -> dict[str, str]:
        """The operator's token; it is not sent in the clear beyond this machine."""
        parts = urlsplit(self._url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise Permanent(f"the operator's token is not sent over plain http to {parts.hostname}; use https")
        if self._token_file is None:
            raise Permanent("an operator's token is needed: name its file with --token-file")
        try:
            return {"Authorization": f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}"}
        except OSError as error:
            raise Permanent(
                f"{self._token_file}: {error.strerror}; run this as the controller's user or as root, or name another "
                "file with --token-file"
            ) from error


def _command(shape: type[S], **values: Any) -> S:
    try:
        return shape(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Permanent(f"{first['loc'][0]} {values[str(first['loc'][0])]!r}: {first['msg']}") from error


def read(shape: type[S], answer: httpx.Response) -> S:
    """The answer as a message; raises Permanent when it is none."""
    try:
        return shape.model_validate_json(answer.content)
    except ValidationError as error:
        raise Permanent(f"{answer.url} does not answer as a Tidegate controller does") from error


def _refusal(answer: httpx.Response, url: str) -> str:
    try:
        problem = answer.json()
        return f"{problem['error']}; {problem['remedy']}" if problem["remedy"] else str(problem["error"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answered {answer.status_code}"
