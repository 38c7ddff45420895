"""What the demo asks of the controller, over HTTP like everybody else."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import httpx

from tidegate.link.messages import CostsShape, HostAction, HostCommand, StatusShape, TokenShape
from tidegate.runtime.errors import Permanent, Transient

TIMEOUT_SECONDS = 5.0


class ControllerClient:
    """A few calls of /v1 with the operator's token, which the controller writes into its state folder."""

    def __init__(self, url: str, token_file: Path) -> None:
        self.url = url
        self._token_file = token_file
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, trust_env=False)

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def ready(self) -> bool:
        """True once the controller answers, and its first token is written."""
        try:
            return self._http.get("/-/healthy").is_success and self._token_file.exists()
        except httpx.HTTPError:
            return False

    def enroll(self, host: str) -> str:
        """Enroll a host; returns its token."""
        command = HostCommand(action=HostAction.ENROLL, name=host)
        answer = self._call("POST", "/v1/hosts", content=command.model_dump_json())
        return TokenShape.model_validate_json(answer).token

    def status(self) -> StatusShape:
        """The fleet as the controller sees it."""
        return StatusShape.model_validate_json(self._call("GET", "/v1/status"))

    def heard(self) -> set[str]:
        """The hosts that report; none while the controller is away."""
        try:
            return {host.name for host in self.status().hosts if host.up}
        except Transient:
            return set()

    def costs(self, since: datetime, until: datetime) -> CostsShape:
        """What each pool cost between the two moments."""
        asked = {"since": since.isoformat(), "until": until.isoformat()}
        return CostsShape.model_validate_json(self._call("GET", "/v1/cost", params=asked))

    def _call(self, method: str, path: str, *, content: str = "", params: dict[str, str] | None = None) -> bytes:
        """The body of a good answer; raises Transient while the controller is away, Permanent when it refuses."""
        headers = {"Content-Type": "application/json"}
        try:
            headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
            answer = self._http.request(method, path, content=content or None, params=params, headers=headers)
        except (OSError, httpx.HTTPError) as error:
            raise Transient(f"the controller at {self.url} does not answer: {error}") from error
        if answer.status_code >= 500:
            raise Transient(f"{method} {path} answered {answer.status_code}: {answer.text[:200]}")
        if not answer.is_success:
            raise Permanent(f"{method} {path} answered {answer.status_code}: {answer.text[:200]}")
        return answer.content
