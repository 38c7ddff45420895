"""The rendered metrics page: once a snapshot, ahead of the scrape, and never an old one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.agent_snapshot import busy_host

from tidegate.expose import rendered
from tidegate.expose.agent_metrics import AgentCollector
from tidegate.expose.exposition import Collector, render
from tidegate.expose.rendered import RenderedMetrics
from tidegate.model.snapshot import AgentSnapshot

_OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Shown:
    """What an agent shows now, and how often it was rendered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshot: AgentSnapshot | None = replace(busy_host(), collections=1)
        self.fresh = True
        self.renderings = 0
        self.page = RenderedMetrics(lambda: self.snapshot, lambda _: self.fresh)
        monkeypatch.setattr(rendered, "render", self._render)

    def _render(self, collector: Collector, accept: str = "") -> tuple[bytes, str]:
        self.renderings += 1
        return render(collector, accept)

    def collect(self) -> None:
        assert self.snapshot is not None
        self.snapshot = replace(self.snapshot, collections=self.snapshot.collections + 1)
        self.page.prepare()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


@pytest.mark.parametrize("accept", ["", "text/plain", _OPENMETRICS])
def test_the_page_is_what_rendering_gives(shown: Shown, accept: str) -> None:
    assert shown.page.answer(accept) == render(AgentCollector(lambda: shown.snapshot), accept)


def test_a_snapshot_is_rendered_once_and_ahead_of_the_next_scrape(shown: Shown) -> None:
    shown.page.answer("")
    shown.page.answer("")
    assert shown.renderings == 1

    shown.collect()
    assert shown.renderings == 2
    assert b"tidegate_collections_total 2.0" in shown.page.answer("")[0]
    assert shown.renderings == 2


def test_formats_are_kept_apart(shown: Shown) -> None:
    text, openmetrics = shown.page.answer(""), shown.page.answer(_OPENMETRICS)
    shown.collect()

    assert shown.renderings == 4
    assert (shown.page.answer("")[1], shown.page.answer(_OPENMETRICS)[1]) == (text[1], openmetrics[1])
    assert shown.renderings == 4


def test_nothing_is_rendered_for_nobody(shown: Shown) -> None:
    """One scrape by hand costs one more rendering, not one for ever."""
    shown.collect()
    assert shown.renderings == 0

    shown.page.answer("")
    shown.collect()
    shown.collect()
    shown.collect()
    assert shown.renderings == 2


def test_a_snapshot_that_has_grown_old_is_rendered_anew(shown: Shown) -> None:
    """Old figures are not served because they were rendered when they were new."""
    assert b"tidegate_engine_up" in shown.page.answer("")[0]
    shown.fresh = False
    assert b"tidegate_engine_up" not in shown.page.answer("")[0]


def test_before_the_first_collection_there_is_an_empty_page(shown: Shown) -> None:
    shown.snapshot = None
    assert shown.page.answer("")[0] == b""
