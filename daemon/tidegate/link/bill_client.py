"""The command line's end of /v1 for bills: files are hashed here and sent only when the controller has not got them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from tidegate.link.bill_commands import (
    DiffShape,
    ExpectedCommand,
    ImportAnswer,
    ImportCommand,
    PartCommand,
    PriceCommand,
    PricesCommand,
    ReasonCommand,
    VersionShape,
)
from tidegate.link.bill_messages import BillShape, QuarantinedShape
from tidegate.link.command_client import CommandClient, read
from tidegate.model.bill import ImportOrder
from tidegate.model.price import Price
from tidegate.runtime.errors import Permanent

_IMPORT_SECONDS = 1800.0
_BLOCK = 1 << 20
S = TypeVar("S", bound=BaseModel)
Progress = Callable[[int], None]


class BillClient:
    """The bill commands of one controller."""

    def __init__(self, client: CommandClient) -> None:
        self._client = client

    def take(self, order: ImportOrder, hashes: dict[str, str], sending: Progress | None) -> BillShape:
        """Import files; `hashes` has that of each path. Files that the controller lacks are sent."""
        command = _command(order, hashes)
        answer = self._import(command)
        paths = {sha256: path for path, sha256 in hashes.items()}
        for sha256 in answer.missing:
            body = _blocks(Path(paths[sha256]), sending)
            self._client.call(
                "PUT", f"/v1/bills/files/{sha256}", body, seconds=_IMPORT_SECONDS, kind="application/octet-stream"
            )
        if answer.missing:
            answer = self._import(command)
        if answer.bill is None:
            raise Permanent("the controller lost the files before it could import them; try again")
        return answer.bill

    def _import(self, command: ImportCommand) -> ImportAnswer:
        body = command.model_dump_json(exclude_none=True)
        return read(ImportAnswer, self._client.call("POST", "/v1/bills", body, seconds=_IMPORT_SECONDS))

    def versions(self, *, every: bool) -> list[VersionShape]:
        """The active versions, or all."""
        return self._list(VersionShape, f"/v1/bills?every={'true' if every else 'false'}")

    def version(self, version: int) -> VersionShape:
        """One version."""
        return read(VersionShape, self._client.call("GET", f"/v1/bills/{version}"))

    def difference(self, version: int, against: int | None) -> DiffShape:
        """What changed."""
        query = f"?against={against}" if against is not None else ""
        return read(
            DiffShape,
            self._client.call("GET", f"/v1/bills/{version}/difference{query}", seconds=_IMPORT_SECONDS),
        )

    def quarantine(self, version: int) -> list[QuarantinedShape]:
        """The rows that could not be taken."""
        return self._list(QuarantinedShape, f"/v1/bills/{version}/quarantine")

    def change(self, version: int, action: str, reason: str) -> VersionShape:
        """`close` the snapshot of a version, `reopen` or `withdraw` it."""
        try:
            command = ReasonCommand(reason=reason)
        except ValidationError as error:
            raise Permanent("--reason: say why, in three characters at least") from error
        body = command.model_dump_json()
        return read(VersionShape, self._client.call("POST", f"/v1/bills/{version}/{action}", body))

    def prices(self) -> list[PriceCommand]:
        """Every price."""
        return self._list(PriceCommand, "/v1/prices")

    def put_prices(self, prices: Sequence[Price]) -> None:
        """Add or replace prices."""
        try:
            commands = tuple(PriceCommand(**{name: getattr(each, name) for name in Price.__slots__}) for each in prices)
            body = PricesCommand(prices=commands).model_dump_json()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Permanent(f"price {first['loc']}: {first['msg']}") from error
        self._client.call("POST", "/v1/prices", body, seconds=_IMPORT_SECONDS)

    def _list(self, shape: type[S], path: str) -> list[S]:
        answer = self._client.call("GET", path)
        try:
            return TypeAdapter(list[shape]).validate_json(answer.content)  # type: ignore[valid-type]
        except ValidationError as error:
            raise Permanent(f"{answer.url} does not answer as a Tidegate controller does") from error


def _blocks(path: Path, progress: Progress | None) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                if progress:
                    progress(len(block))
                yield block
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error


def _command(order: ImportOrder, hashes: dict[str, str]) -> ImportCommand:
    parts = tuple(
        PartCommand(
            sha256=hashes[part.path], name=part.name[:512], entry=part.entry, hints=part.hints[:16], rows=part.rows
        )
        for part in order.parts
    )
    expected = order.expected
    try:
        return ImportCommand(
            content=order.content,
            parts=parts,
            source=order.source,
            account=order.account,
            currency=order.currency,
            shard=order.shard,
            force=order.force,
            left_out=tuple(name[:512] for name in order.left_out[:1000]),
            expected=ExpectedCommand(amount=expected.amount, currency=expected.currency) if expected else None,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Permanent(f"{first['loc'][0]}: {first['msg']}") from error
