"""The part of /v1 about bills. Reading needs no token, as for cost; importing, closing, prices need an operator's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, FastAPI, Path, Query, Request

from tidegate.link import bill_commands as c
from tidegate.link.bill_messages import BillShape, QuarantinedShape, quarantined_shape
from tidegate.link.bill_results import result_shape
from tidegate.link.bills_api import BillsApi
from tidegate.link.controller_api import ControllerApi
from tidegate.link.guards import operator_guard
from tidegate.link.problems import RESPONSES, Refused
from tidegate.link.uploads import Uploads
from tidegate.runtime.errors import Permanent

T = TypeVar("T")
_Id = Annotated[int, Path(ge=1, lt=2**63)]
_FILE_BODY = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
_REFUSED = {"description": "The bill cannot be taken as it is: what, where, and the remedy."}


@dataclass(frozen=True, slots=True)
class BillDoor:
    """What stands behind the routes."""

    bills: BillsApi
    uploads: Uploads


def add_bill_routes(app: FastAPI, api: ControllerApi, door: BillDoor) -> None:
    """Mount the routes."""
    bills, uploads = door.bills, door.uploads
    _add_import(app, api, bills, uploads)
    _add_reading(app, bills)
    _add_closing(app, api, bills)
    _add_prices(app, api, bills)


def _add_import(app: FastAPI, api: ControllerApi, bills: BillsApi, uploads: Uploads) -> None:
    operator = operator_guard(api)

    @app.put("/v1/bills/files/{sha256}", tags=["bills"], responses=RESPONSES, openapi_extra={"requestBody": _FILE_BODY})
    async def send(
        sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")],
        request: Request,
        _: str = Depends(operator),
    ) -> dict[str, int]:
        """Take one bill file as raw bytes; it is kept until an import has used it."""
        return {"bytes": await uploads.receive(sha256, request.stream())}

    @app.post("/v1/bills", tags=["bills"], responses={**RESPONSES, 409: _REFUSED})
    def take(command: c.ImportCommand, who: str = Depends(operator)) -> c.ImportAnswer:
        """Import files, all or nothing. Files that are not here are named; send them and ask again."""
        known = bills.known(command.content)
        if known is not None:
            return c.ImportAnswer(missing=[], bill=result_shape(known))
        hashes = [part.sha256 for part in command.parts]
        if missing := uploads.missing(hashes):
            return c.ImportAnswer(missing=missing, bill=None)
        try:
            bill: BillShape = result_shape(bills.take(command.order(str(uploads.folder)), who))
        except Permanent as error:
            raise Refused(409, str(error)) from error
        finally:
            uploads.discard(hashes)
        return c.ImportAnswer(missing=[], bill=bill)


def _add_reading(app: FastAPI, bills: BillsApi) -> None:
    @app.get("/v1/bills", tags=["bills"], responses=RESPONSES)
    def versions(*, every: Annotated[bool, Query(description="Earlier versions too.")] = False) -> list[c.VersionShape]:
        """Every snapshot's active version."""
        return [c.version_shape(each) for each in bills.versions(every=every)]

    @app.get("/v1/bills/{version}", tags=["bills"], responses=RESPONSES)
    def version(version: _Id) -> c.VersionShape:
        """One version."""
        return c.version_shape(_found(lambda: bills.version(version)))

    @app.get("/v1/bills/{version}/difference", tags=["bills"], responses=RESPONSES)
    def difference(version: _Id, against: Annotated[int | None, Query(ge=1, lt=2**63)] = None) -> c.DiffShape:
        """What changed from the version before, or from another one."""
        old, new, movers = _found(lambda: bills.compare(version, against))
        return c.DiffShape(
            old=c.version_shape(old) if old else None,
            new=c.version_shape(new),
            movers=None if movers is None else [c.mover_shape(each) for each in movers],
        )

    @app.get("/v1/bills/{version}/quarantine", tags=["bills"], responses=RESPONSES)
    def quarantine(version: _Id) -> list[QuarantinedShape]:
        """The rows of a version that could not be taken; the first thousand."""
        return [quarantined_shape(each) for each in _found(lambda: bills.quarantined(version))]


def _add_closing(app: FastAPI, api: ControllerApi, bills: BillsApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/bills/{version}/close", tags=["bills"], responses={**RESPONSES, 409: _REFUSED})
    def close(version: _Id, command: c.ReasonCommand, who: str = Depends(operator)) -> c.VersionShape:
        """Close the snapshot of a version: it is final, and changes only by corrections in later periods."""
        return c.version_shape(_done(lambda: bills.close(version, command.reason, who)))

    @app.post("/v1/bills/{version}/reopen", tags=["bills"], responses={**RESPONSES, 409: _REFUSED})
    def reopen(version: _Id, command: c.ReasonCommand, who: str = Depends(operator)) -> c.VersionShape:
        """Open the snapshot of a version again."""
        return c.version_shape(_done(lambda: bills.reopen(version, command.reason, who)))

    @app.post("/v1/bills/{version}/withdraw", tags=["bills"], responses={**RESPONSES, 409: _REFUSED})
    def withdraw(version: _Id, command: c.ReasonCommand, who: str = Depends(operator)) -> c.VersionShape:
        """Let the snapshot of a version count no longer: it was imported by mistake."""
        return c.version_shape(_done(lambda: bills.withdraw(version, command.reason, who)))


def _add_prices(app: FastAPI, api: ControllerApi, bills: BillsApi) -> None:
    operator = operator_guard(api)

    @app.get("/v1/prices", tags=["bills"], responses=RESPONSES)
    def prices() -> list[c.PriceCommand]:
        """Every price."""
        return [c.price_command(each) for each in bills.prices()]

    @app.post("/v1/prices", tags=["bills"], responses=RESPONSES)
    def put(command: c.PricesCommand, who: str = Depends(operator)) -> dict[str, int]:
        """Add or replace prices."""
        bills.put_prices([c.price_of(each) for each in command.prices], who)
        return {"prices": len(command.prices)}


def _found(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Permanent as error:
        raise Refused(404, str(error)) from error


def _done(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Permanent as error:
        raise Refused(409, str(error)) from error
