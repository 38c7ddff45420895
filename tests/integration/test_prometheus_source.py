"""A real Prometheus scrapes an agent's page on loopback: readings come, and a target that goes down is unreachable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fakes.agent_process import eventually
from fakes.prometheus_process import PrometheusProcess
from fakes.source_story import BEGIN, G1, STEP, look_at, page

from tidegate.controller.measured import Measured
from tidegate.expose.agent_metrics import AgentCollector, render
from tidegate.expose.selectors import ScrapeWords
from tidegate.model.missing import Gap
from tidegate.model.reading import Counter, Gauge, HostReading
from tidegate.model.scrape import PrometheusPlace
from tidegate.model.snapshot import AgentSnapshot
from tidegate.model.window import EngineWindow, engine_window, gauge
from tidegate.observe.prometheus import Prometheus


class Page:
    """An agent that collects whenever it is scraped, and does a step's work meanwhile."""

    def __init__(self) -> None:
        self.seen: list[HostReading] = []

    def __call__(self) -> AgentSnapshot:
        now = datetime.now(UTC)
        look = look_at(G1, BEGIN + STEP * len(self.seen))
        self.seen.append(replace(look, at=now, engines=tuple(replace(one, at=now) for one in look.engines)))
        return page(self.seen)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body, kind = render(AgentCollector(self.server.page), self.headers.get("Accept", ""))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def agent() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.page = Page()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_readings_come_from_scrapes_and_a_target_that_goes_down_is_unreachable(
    agent: ThreadingHTTPServer, tmp_path: Path
) -> None:
    with PrometheusProcess(tmp_path / "prometheus", agent.server_address[1], "1s") as server:
        place = PrometheusPlace(server.url)
        measured = Measured(Prometheus(lambda: place), ScrapeWords(lambda: place), lambda: timedelta(minutes=1), {})

        def readings() -> list[HostReading]:
            now = datetime.now(UTC)
            measured.poll(now)
            return list(measured.since(now - timedelta(minutes=1), now).get(G1, ()))

        eventually(lambda: len(readings()) >= 3, "no readings came", 30.0)
        found = readings()
        window = engine_window([reading.engines[0] for reading in found])
        assert isinstance(window, EngineWindow)
        assert window.increases[Counter.GENERATION_TOKENS] == 100.0 * (len(found) - 1)
        assert gauge(found[-1].engines[0], Gauge.RUNNING) == 4.0
        assert measured.silent() == {G1: Gap.STALE}  # once they are old
        assert measured.state().dropped == {}

        agent.shutdown()
        agent.server_close()

        def down() -> bool:
            measured.poll(datetime.now(UTC))
            return dict(measured.silent()) == {G1: Gap.UNREACHABLE}

        eventually(down, "the target is not down", 20.0)
        assert any("its target is down" in note for note in measured.state().notes)
        assert readings()[-1] == found[-1] or len(readings()) > len(found)  # nothing is made up
