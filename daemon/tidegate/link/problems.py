"""Errors as answers: one JSON object with what is wrong, where, and the remedy; never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from tidegate.runtime.errors import Permanent, Transient

_SHOWN = 20
_log = structlog.get_logger()


class Place(BaseModel):
    """One thing that is wrong in a message."""

    place: str
    """A path such as "reports.0.at"."""
    problem: str


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    remedy: str = ""
    places: list[Place] = []


class Refused(Exception):  # noqa: N818 - named for what happens
    """Ends a request with a status and a problem."""

    def __init__(
        self,
        status: int,
        error: str,
        remedy: str = "",
        places: Sequence[Place] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(error)
        self.status, self.problem = status, Problem(error=error, remedy=remedy, places=list(places))
        self.headers = headers or ({"WWW-Authenticate": "Bearer"} if status == 401 else {})


def places(errors: Sequence[Any]) -> list[Place]:
    """pydantic's errors as places; the values themselves are not echoed."""
    return [
        Place(place=".".join(str(part) for part in error["loc"])[:200], problem=str(error["msg"])[:300])
        for error in errors[:_SHOWN]
    ]


def malformed(error: ValidationError) -> Refused:
    """422 with every place that is wrong, or 400 when it is not even JSON."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    if any(found["type"] == "json_invalid" for found in errors):
        return Refused(400, "the body is not JSON", "send one JSON object in UTF-8", places(errors))
    return Refused(422, f"{len(errors)} things are wrong in the message", "see `places`", places(errors))


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "Not JSON, or a wire version that is not spoken here."),
        (401, "No token, or one that nobody has."),
        (403, "The token may not do this."),
        (408, "The body did not arrive in time."),
        (413, "The body is too large."),
        (415, "A compressed body."),
        (422, "Well-formed but wrong."),
        (503, "The database is away; try again."),
    )
}


@dataclass(frozen=True, slots=True)
class Explained:
    """An error as it is answered."""

    status: int
    problem: Problem
    headers: Mapping[str, str] = field(default_factory=dict)


def explain(error: Exception) -> Explained | None:
    """How an error is answered; None for one that nobody foresaw."""
    if isinstance(error, Refused):
        return Explained(error.status, error.problem, error.headers)
    if isinstance(error, Transient):
        problem = Problem(error=str(error), remedy="try again; nothing was stored")
        return Explained(503, problem, {"Retry-After": "5"})
    if isinstance(error, Permanent):
        return Explained(500, Problem(error=str(error), remedy="see the controller's log"))
    return None


def install(app: FastAPI) -> None:
    """Answer every foreseen error as a `Problem`."""

    def foreseen(request: Request, error: Exception) -> JSONResponse:
        found = explain(error)
        if found is None:
            raise error
        if found.status == 500:
            _log.error("request failed", path=request.url.path, error=str(error))
        return JSONResponse(found.problem.model_dump(), found.status, found.headers)

    for kind in (Refused, Transient, Permanent):
        app.add_exception_handler(kind, foreseen)

    @app.exception_handler(RequestValidationError)
    def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        problem = Problem(error="the request is not valid", remedy="see `places`", places=places(error.errors()))
        return JSONResponse(problem.model_dump(), 422)

    @app.exception_handler(HTTPException)
    def known(_request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        return JSONResponse(Problem(error=str(error.detail)).model_dump(), error.status_code, headers)
