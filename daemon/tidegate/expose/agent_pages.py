"""The agent's HTTP application: `/metrics`, a page for people, and two health checks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tidegate.expose.agent_landing import landing
from tidegate.expose.rendered import RenderedMetrics
from tidegate.model.snapshot import AgentSnapshot
from tidegate.runtime.clock import Clock

_FLOOR_SECONDS = 10.0
"""A snapshot is fresh for at least so many real seconds: a played clock runs minutes while a busy machine breathes."""

_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def agent_app(
    snapshot: Callable[[], AgentSnapshot | None],
    clock: Clock,
    stale_after: timedelta,
    *,
    export_metrics: bool = True,
) -> Starlette:
    """The application over whatever `snapshot` answers.

    A snapshot older than `stale_after` (of the clock) makes the agent unready, and its figures are served no more.
    """
    return AgentPages(snapshot, clock, stale_after).app(export_metrics=export_metrics)


class AgentPages:
    """The endpoints. They only read the snapshot, so that none can be held up by a GPU or an engine."""

    def __init__(self, snapshot: Callable[[], AgentSnapshot | None], clock: Clock, stale_after: timedelta) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._fresh_seconds = max(clock.real_seconds(stale_after), _FLOOR_SECONDS)
        self._metrics = RenderedMetrics(snapshot, self._fresh)

    def app(self, *, export_metrics: bool) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self.landing),
                Route("/metrics", self.metrics if export_metrics else self.no_metrics),
                Route("/-/healthy", self.healthy),
                Route("/-/ready", self.ready),
            ]
        )

    def prepare(self) -> None:
        """Render the new snapshot for those who scrape."""
        self._metrics.prepare()

    def _fresh(self, shown: AgentSnapshot) -> bool:
        return self._clock.real_seconds(self._clock.now() - shown.collected_at) <= self._fresh_seconds

    def _unready(self) -> str:
        """Why the agent is not ready; empty when it is."""
        shown = self._snapshot()
        if shown is None:
            return "nothing collected yet"
        if not self._fresh(shown):
            return f"the last collection was at {shown.collected_at:%Y-%m-%d %H:%M:%S} UTC; the log says why"
        return ""

    async def landing(self, _: Request) -> Response:
        """What a person sees first."""
        return HTMLResponse(landing(self._snapshot(), self._unready()), headers=_PAGE_HEADERS)

    async def metrics(self, request: Request) -> Response:
        """The exposition."""
        body, content_type = self._metrics.answer(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def no_metrics(self, _: Request) -> Response:
        """Where the exposition is switched off."""
        return PlainTextResponse("metrics are switched off in the configuration (export_metrics)\n", status_code=404)

    async def healthy(self, _: Request) -> Response:
        """That the process answers."""
        return PlainTextResponse("healthy\n")

    async def ready(self, _: Request) -> Response:
        """That what it answers is fresh."""
        why = self._unready()
        return PlainTextResponse(f"not ready: {why}\n" if why else "ready\n", status_code=503 if why else 200)
