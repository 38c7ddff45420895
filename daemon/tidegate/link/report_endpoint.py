"""The controller's end of the wire: takes reports and hands out desired state; the one FastAPI application."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from tidegate import __version__
from tidegate.link.bell import Bell
from tidegate.link.bill_routes import BillDoor, add_bill_routes
from tidegate.link.controller_api import ControllerApi
from tidegate.link.cost_routes import add_cost_routes
from tidegate.link.guards import host_guard
from tidegate.link.limits import App, BodyLimit
from tidegate.link.operator_routes import add_operator_routes
from tidegate.link.page_routes import Pages, add_page_routes
from tidegate.link.pool_routes import add_pool_routes
from tidegate.link.problems import RESPONSES, Refused, install
from tidegate.link.query_routes import add_query_routes
from tidegate.link.report_desk import ReportDesk
from tidegate.model.reading import HostName
from tidegate.wire import Answer, Batch, Desired

MAX_WAIT_SECONDS = 25.0
"""Below the idle time-out of common proxies (60 s) and of the agent's own client."""


def build_app(api: ControllerApi, pages: Pages, bell: Bell, bills: BillDoor | None = None) -> App:
    """The application: /v1 for agents, people and programs; pages and metrics beside it."""
    app = FastAPI(
        title="Tidegate controller",
        version=__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    install(app)
    _add_agent_routes(app, api, bell)
    add_operator_routes(app, api)
    add_pool_routes(app, api)
    add_query_routes(app, api)
    add_cost_routes(app, api)
    if bills is not None:
        add_bill_routes(app, api, bills)
    add_page_routes(app, api, pages)
    app.openapi = _describe(app)  # type: ignore[method-assign] # FastAPI's documented way to extend it
    return BodyLimit(app, on_report_too_large=lambda: api.refused("too_large"))


def _add_agent_routes(app: FastAPI, api: ControllerApi, bell: Bell) -> None:
    of_host, desk = host_guard(api), ReportDesk(api)

    @app.post(
        "/v1/report",
        tags=["agent"],
        response_model=Answer,
        responses=RESPONSES,
        openapi_extra={"requestBody": _BATCH_BODY},
    )
    async def report(host: HostName = Depends(of_host), body: bytes = Depends(_body)) -> Response:  # noqa: B008 - FastAPI
        """Take a batch of reports. The same batch twice is stored once; what is acknowledged may be forgotten."""
        return Response(await desk.take(host, body, api.now()), media_type="application/json")

    @app.get("/v1/desired", tags=["agent"], responses={**RESPONSES, 204: {"description": "Nothing newer in time."}})
    async def desired(
        host: HostName = Depends(of_host),  # noqa: B008 - FastAPI
        after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        after_epoch: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0.0,
    ) -> Desired:
        """The host's desired state once it is newer than (after_epoch, after); waits up to `wait` real seconds."""
        newer = await _newer(api, bell, host, (after_epoch, after), wait)
        return newer if newer is not None else Response(status_code=204)  # type: ignore[return-value]


async def _newer(api: ControllerApi, bell: Bell, host: HostName, after: tuple[int, int], wait: float) -> Desired | None:
    loop = asyncio.get_running_loop()
    until = end_of_wait(host, loop.time(), wait)
    while True:
        event = bell.listen(host)
        try:
            found = api.known_desired(host)
            if found is None:
                found = await run_in_threadpool(api.desired, host)
            if (found.epoch, found.revision) > after:
                return found
            if bell.closed:
                return None
            await asyncio.wait_for(event.wait(), max(0.0, until - loop.time()))
        except TimeoutError:
            return None
        finally:
            bell.leave(host, event)


def end_of_wait(host: HostName, now: float, wait: float) -> float:
    """When a poll that begins now ends at the latest: after a quarter of `wait` to all of it, at the host's own place.

    All hosts come at once after a restart. With the same wait for all they would do so for ever after; this way they
    have found their places at the second poll, and wait the whole time from the third.
    """
    if wait <= 0:
        return now
    place = zlib.crc32(host.encode()) / 2**32 * wait
    left = (place - now) % wait
    return now + (left if left >= wait / 4 else left + wait / 2)


async def _body(request: Request) -> bytes:
    """The raw body; its size and time are bounded by `BodyLimit`."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise Refused(400, "the client went away in the middle of the body", "send it again") from None


_BATCH_BODY = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Batch"}}}}


def _describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The OpenAPI description with the batch in it, which the route reads by itself."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schema = Batch.model_json_schema(ref_template="#/components/schemas/{model}")
            shapes = description.setdefault("components", {}).setdefault("schemas", {})
            shapes.update(schema.pop("$defs", {}))
            shapes["Batch"] = schema
            app.openapi_schema = description
        return app.openapi_schema

    return openapi
