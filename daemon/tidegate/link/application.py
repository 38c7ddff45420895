"""Everything that is asked of a controller but what agents ask: the one FastAPI application."""

from __future__ import annotations

from fastapi import FastAPI

from tidegate import __version__
from tidegate.link.asgi import App
from tidegate.link.bill_routes import BillDoor, add_bill_routes
from tidegate.link.controller_api import ControllerApi
from tidegate.link.cost_routes import add_cost_routes
from tidegate.link.description import describe
from tidegate.link.limits import BodyLimit
from tidegate.link.operator_routes import add_operator_routes
from tidegate.link.page_routes import Pages, add_page_routes
from tidegate.link.pool_routes import add_pool_routes
from tidegate.link.problems import install
from tidegate.link.query_routes import add_query_routes


def build_app(api: ControllerApi, pages: Pages, bills: BillDoor | None = None) -> App:
    """The application: /v1 for people and programs, with the description of all of /v1; pages and metrics beside it."""
    app = FastAPI(
        title="Tidegate controller",
        version=__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    install(app)
    add_operator_routes(app, api)
    add_pool_routes(app, api)
    add_query_routes(app, api)
    add_cost_routes(app, api)
    if bills is not None:
        add_bill_routes(app, api, bills)
    add_page_routes(app, api, pages)
    app.openapi = describe(app)  # type: ignore[method-assign] # FastAPI's documented way to extend it
    return BodyLimit(app)
