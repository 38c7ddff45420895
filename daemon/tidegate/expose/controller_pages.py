"""The controller's pages, rendered when they are asked for."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.expose import status_page
from tidegate.expose.controller_metrics import ControllerCollector
from tidegate.expose.exposition import render
from tidegate.model.overview import Overview
from tidegate.runtime.clock import Clock


class ControllerPages:
    """The status page and the exposition of an overview."""

    def __init__(self, clock: Clock, readiness: Callable[[], tuple[bool, str]]) -> None:
        self._clock, self._readiness = clock, readiness

    def status(self, overview: Overview, accept_language: str, language: str | None) -> str:
        """The status page as HTML."""
        return status_page.page(overview, self._clock.now(), self._readiness(), language, accept_language)

    def metrics(self, overview: Overview, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type; without pools and hosts while ticks do not go through."""
        fresh, _why = self._readiness()
        return render(ControllerCollector(overview, self._clock.now(), fresh=fresh), accept)
