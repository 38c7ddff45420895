"""Ask an ASGI application without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from starlette.types import ASGIApp


class Browser:
    """GETs pages of one application, each on an event loop of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return asyncio.run(self._get(path, headers))

    async def _get(self, path: str, headers: Mapping[str, str] | None) -> httpx.Response:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return await client.get(path, headers=headers)
