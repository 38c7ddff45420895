"""The command line's end of /v1: one call, with an operator's token. What is said in it, the clients beside it know."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.loopback import is_loopback

TIMEOUT_SECONDS = 15.0

S = TypeVar("S", bound=BaseModel)


class CommandClient:
    """Commands a controller. Every error is one line with the remedy."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        self.url, self._token_file = url.rstrip("/"), token_file

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
        secure = self.url.lower().startswith("https:")  # else no certificates are read, which takes 20 ms a call
        try:
            with httpx.Client(timeout=seconds, trust_env=False, verify=secure) as client:
                answer = client.request(method, f"{self.url}{path}", content=body, headers=headers)
        except httpx.InvalidURL as error:
            raise Permanent(f"--controller {self.url}: {error}; write http://HOST:PORT") from error
        except httpx.HTTPError as error:
            raise Transient(
                f"the controller at {self.url} does not answer ({error}); is it running? --controller names another"
            ) from error
        if not answer.is_success:
            raise Permanent(_refusal(answer, self.url))
        return answer

    def _authorization(self) -> dict[str, str]:
        """The operator's token; it is not sent in the clear beyond this machine."""
        parts = urlsplit(self.url)
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
