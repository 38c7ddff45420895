"""The OpenAPI description of all of /v1: FastAPI's own, and what agents ask, which is no route of its."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from tidegate.link.problems import RESPONSES, Problem
from tidegate.link.report_endpoint import DESIRED, REPORT, Position
from tidegate.wire import Answer, Batch, Desired

_SHAPES = "#/components/schemas/"


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What FastAPI asks for the description; worked out once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = get_openapi(title=app.title, version=app.version, routes=app.routes)
            components = description.setdefault("components", {})
            shapes = components.setdefault("schemas", {})
            for model, mode in ((Batch, "validation"), (Answer, "serialization"), (Desired, "serialization")):
                _add(shapes, model, mode)
            _add(shapes, Problem, "serialization")
            components.setdefault("securitySchemes", {})["HTTPBearer"] = {"type": "http", "scheme": "bearer"}
            description["paths"] |= {REPORT: {"post": _report()}, DESIRED: {"get": _desired()}}
            app.openapi_schema = description
        return app.openapi_schema

    return openapi


def _add(shapes: dict[str, Any], model: type[BaseModel], mode: Any) -> None:
    schema = model.model_json_schema(ref_template=_SHAPES + "{model}", mode=mode)
    for name, shape in (*schema.pop("$defs", {}).items(), (model.__name__, schema)):
        shapes.setdefault(name, shape)


def _report() -> dict[str, Any]:
    return _operation(
        "report_v1_report_post",
        "Take a batch of reports. The same batch twice is stored once; what is acknowledged may be forgotten.",
        {"200": {"description": "What was taken.", "content": _json(Answer)}},
    ) | {"requestBody": {"required": True, "content": _json(Batch)}}


def _desired() -> dict[str, Any]:
    asked = Position.model_json_schema()["properties"]
    return _operation(
        "desired_v1_desired_get",
        "The host's desired state once it is newer than (after_epoch, after); waits up to `wait` real seconds.",
        {
            "200": {"description": "Everything that the host should run.", "content": _json(Desired)},
            "204": {"description": "Nothing newer in time."},
        },
    ) | {"parameters": [{"name": name, "in": "query", "schema": shape} for name, shape in asked.items()]}


def _operation(name: str, what: str, answers: dict[str, Any]) -> dict[str, Any]:
    refused = {
        str(status): {"description": told["description"], "content": _json(Problem)}
        for status, told in RESPONSES.items()
    }
    return {
        "tags": ["agent"],
        "operationId": name,
        "summary": name.partition("_")[0].capitalize(),
        "description": what,
        "security": [{"HTTPBearer": []}],
        "responses": answers | refused,
    }


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _SHAPES + model.__name__}}}
