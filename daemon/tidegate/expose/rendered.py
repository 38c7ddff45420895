"""The metrics page of a snapshot, rendered once however often it is asked for, and before it is asked for again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.expose.agent_metrics import AgentCollector
from tidegate.expose.exposition import prefers_openmetrics, render
from tidegate.model.snapshot import AgentSnapshot


@dataclass(frozen=True, slots=True)
class _Page:
    """A rendered page, and what it shows."""

    snapshot: AgentSnapshot | None
    fresh: bool
    body: bytes
    content_type: str


class RenderedMetrics:
    """Answers scrapes of the latest snapshot; any thread may ask.

    Rendering takes longer than a scrape should: `prepare`, called by whoever made a new snapshot, does it ahead.
    """

    def __init__(
        self, snapshot: Callable[[], AgentSnapshot | None], fresh: Callable[[AgentSnapshot], bool] = lambda _: True
    ) -> None:
        self._snapshot, self._fresh = snapshot, fresh
        self._lock = threading.Lock()
        self._pages: dict[bool, _Page] = {}
        """By whether it is OpenMetrics."""
        self._asked: set[bool] = set()

    def answer(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that the scraper asks for, and its content type."""
        openmetrics = prefers_openmetrics(accept)
        with self._lock:
            self._asked.add(openmetrics)
            page = self._page(openmetrics)
        return page.body, page.content_type

    def prepare(self) -> None:
        """Render the formats that were asked for since the last time; none when nobody scrapes."""
        with self._lock:
            asked, self._asked = self._asked, set()
            self._pages = {openmetrics: self._page(openmetrics) for openmetrics in asked}

    def _page(self, openmetrics: bool) -> _Page:  # noqa: FBT001 - a private key
        shown = self._snapshot()
        fresh = shown is not None and self._fresh(shown)
        page = self._pages.get(openmetrics)
        if page is None or page.snapshot is not shown or page.fresh != fresh:
            collector = AgentCollector(lambda: shown, lambda _: fresh)
            page = _Page(shown, fresh, *render(collector, _OPENMETRICS if openmetrics else ""))
            self._pages[openmetrics] = page
        return page


_OPENMETRICS = "application/openmetrics-text"
