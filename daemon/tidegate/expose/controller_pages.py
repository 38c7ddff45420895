"""The controller's pages, rendered when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tidegate.expose import status_page
from tidegate.expose.controller_metrics import ControllerCollector
from tidegate.expose.exposition import render
from tidegate.expose.words import choose_language
from tidegate.model.overview import Overview
from tidegate.runtime.clock import Clock

_FASTEST_REFRESH_SECONDS = 2


class ControllerPages:
    """The status page and the exposition of an overview."""

    def __init__(self, clock: Clock, readiness: Callable[[], tuple[bool, str]]) -> None:
        self._clock, self._readiness = clock, readiness

    def status(self, overview: Overview, accept_language: str, language: str | None, *, hold: bool = False) -> str:
        """The status page as HTML; held still, it does not ask for itself again."""
        chosen = choose_language(language, accept_language)
        refresh = 0 if hold else self._refresh_seconds()
        return status_page.render(overview, self._clock.now(), self._readiness(), chosen, refresh)

    def metrics(self, overview: Overview, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type; without pools and hosts while ticks do not go through."""
        fresh, _why = self._readiness()
        return render(ControllerCollector(overview, self._clock.now(), fresh=fresh), accept)

    def _refresh_seconds(self) -> int:
        """Real seconds: a page of a played clock asks more often."""
        usual = timedelta(seconds=status_page.REFRESH_SECONDS)
        return max(_FASTEST_REFRESH_SECONDS, round(self._clock.real_seconds(usual)))
