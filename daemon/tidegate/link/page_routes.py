"""What people and monitors open: the status page, `/metrics`, health and readiness."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import FastAPI, Header, Query
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from tidegate.link.controller_api import ControllerApi
from tidegate.model.overview import Overview

_SECURE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Pages(Protocol):
    """Renders; wiring gives the real ones of `expose/`."""

    def status(self, overview: Overview, accept_language: str, language: str | None, *, hold: bool) -> str:
        """The status page as HTML, in the language asked for; held still or asking for itself again."""
        ...

    def metrics(self, overview: Overview, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type."""
        ...


def add_page_routes(app: FastAPI, api: ControllerApi, pages: Pages) -> None:
    """Mount `/`, `/metrics`, `/-/healthy` and `/-/ready`."""

    @app.get("/", include_in_schema=False)
    def status_page(
        lang: Annotated[str | None, Query(max_length=20)] = None,
        hold: Annotated[bool, Query()] = False,  # noqa: FBT002 - a query parameter
        accept_language: Annotated[str, Header()] = "",
    ) -> HTMLResponse:
        return HTMLResponse(pages.status(api.overview(), accept_language[:200], lang, hold=hold), headers=_SECURE)

    @app.get("/metrics", include_in_schema=False)
    def metrics(accept: Annotated[str, Header()] = "") -> Response:
        body, content_type = pages.metrics(api.overview(), accept)
        return Response(body, headers={"Content-Type": content_type})

    @app.get("/-/healthy", include_in_schema=False)
    def healthy() -> PlainTextResponse:
        return PlainTextResponse("alive\n")

    @app.get("/-/ready", include_in_schema=False)
    def ready() -> PlainTextResponse:
        works, why = api.ready()
        return PlainTextResponse(f"{why}\n", 200 if works else 503)
