"""The command line's end of /v1 for pools: explanations, commands, the mode, wishes, and the recorded figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, TypeAdapter, ValidationError

from tidegate.link.command_client import CommandClient, read
from tidegate.link.messages import StatusShape
from tidegate.link.pool_messages import (
    BoundsCommand,
    DoneShape,
    ExplanationShape,
    ModeCommand,
    PauseCommand,
    RecordedShape,
    WishCommand,
)
from tidegate.runtime.errors import Permanent

S = TypeVar("S", bound=BaseModel)


class PoolClient:
    """The pool commands of one controller; those that change something answer what was done, in words."""

    def __init__(self, client: CommandClient) -> None:
        self._client = client

    def pools(self) -> Sequence[ExplanationShape]:
        """Every pool: why it has the size that it has."""
        return self._list(ExplanationShape, "/v1/pools")

    def pool(self, name: str) -> ExplanationShape:
        """One pool: why it has the size that it has."""
        return read(ExplanationShape, self._client.call("GET", _path(name)))

    def pause(self, name: str, command: PauseCommand) -> str:
        """Keep a pool's size."""
        return self._do("POST", f"{_path(name)}/pause", command)

    def resume(self, name: str) -> str:
        """End a pool's pauses."""
        return self._do("POST", f"{_path(name)}/resume")

    def bounds(self, name: str, command: BoundsCommand | None) -> str:
        """Give a pool other bounds for a time; without a command, those of its configuration."""
        return self._do("DELETE" if command is None else "POST", f"{_path(name)}/bounds", command)

    def mode(self, command: ModeCommand) -> str:
        """Set what becomes of decisions."""
        return self._do("POST", "/v1/mode", command)

    def wish(self, service: str, command: WishCommand) -> str:
        """Say how many replicas of a service are wished for."""
        return self._do("POST", f"/v1/services/{_name(service)}/wish", command)

    def now(self) -> datetime:
        """The controller's time, which a played clock may have taken far from ours."""
        return read(StatusShape, self._client.call("GET", "/v1/status")).now

    def figures(self, since: datetime, until: datetime) -> Sequence[RecordedShape]:
        """Every pool's figures at every tick of at most an hour."""
        span = urlencode({"since": since.isoformat(), "until": until.isoformat()})
        return self._list(RecordedShape, f"/v1/figures?{span}")

    def _do(self, method: str, path: str, command: BaseModel | None = None) -> str:
        body = "{}" if command is None else command.model_dump_json()
        return read(DoneShape, self._client.call(method, path, body)).done

    def _list(self, shape: type[S], path: str) -> Sequence[S]:
        answer = self._client.call("GET", path)
        try:
            return TypeAdapter(list[shape]).validate_json(answer.content)  # type: ignore[valid-type] # made at run time
        except ValidationError as error:
            raise Permanent(f"{answer.url} does not answer as a Tidegate controller does") from error


def _path(name: str) -> str:
    return f"/v1/pools/{_name(name)}"


def _name(name: str) -> str:
    """As a part of a path; raises Permanent for what would be another path."""
    if not name.strip(".") or "/" in name:
        raise Permanent(f"{name!r} is no name of a pool or service; `tidegate pool list` shows what there is")
    return quote(name, safe="")
