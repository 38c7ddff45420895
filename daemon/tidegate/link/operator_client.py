"""The command line's end of /v1 for hosts, users and questions about the past."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from tidegate.link.command_client import CommandClient, read
from tidegate.link.messages import EnrolledShape, HostAction, HostCommand, Role, TokenShape, UserCommand
from tidegate.link.query_messages import HistoryShape, QueryForm
from tidegate.runtime.errors import Permanent

S = TypeVar("S", bound=BaseModel)


class OperatorClient:
    """What an operator asks of one controller."""

    def __init__(self, client: CommandClient) -> None:
        self._client = client

    def host(self, action: HostAction, name: str) -> TokenShape:
        """Enroll, rotate or revoke a host."""
        body = _command(HostCommand, action=action, name=name)
        return read(TokenShape, self._client.call("POST", "/v1/hosts", body))

    def hosts(self) -> list[EnrolledShape]:
        """Every host that was ever enrolled."""
        try:
            return [EnrolledShape.model_validate(found) for found in self._client.call("GET", "/v1/hosts").json()]
        except ValueError as error:
            raise Permanent(f"{self._client.url} does not answer as a Tidegate controller does: {error}") from error

    def user(self, name: str, role: Role) -> TokenShape:
        """Add a user, or give him another token."""
        body = _command(UserCommand, name=name, role=role)
        return read(TokenShape, self._client.call("POST", "/v1/users", body))

    def history(self, form: QueryForm) -> HistoryShape:
        """The past of the series asked for."""
        asked = form.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return read(HistoryShape, self._client.call("GET", f"/v1/query?{urlencode(asked, doseq=True)}"))


def _command(shape: type[S], **values: Any) -> str:
    try:
        return shape(**values).model_dump_json()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Permanent(f"{first['loc'][0]} {values[str(first['loc'][0])]!r}: {first['msg']}") from error
