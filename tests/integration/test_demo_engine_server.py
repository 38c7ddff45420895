"""The simulated engine as a real process behind the demo's gateway, and what a SIGTERM under load costs."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import httpx
import pytest

from tidegate.demo.gateway import Gateway
from tidegate.demo.pages import Answer, PageServer
from tidegate.demo.processes import Child, end, spawn
from tidegate.demo.traffic import Day, Traffic
from tidegate.runtime.clock import VARIABLE, ScaledClock

MIDNIGHT = datetime(2026, 11, 24, tzinfo=UTC)
TEN = MIDNIGHT + timedelta(hours=10)


def eventually(done: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def clock() -> ScaledClock:
    return ScaledClock(time.time(), TEN, 300.0)


@pytest.fixture
def start(clock: ScaledClock, tmp_path: Path) -> Iterator[Callable[[int], Child]]:
    children: list[Child] = []

    def begin(port: int, load_seconds: int = 30) -> Child:
        command = [sys.executable, "-m", "tidegate.demo.engine_server", "--port", str(port)]
        command += ["--load-seconds", str(load_seconds)]
        child = spawn(f"engine-{port}", command, {VARIABLE: clock.text()}, tmp_path / f"{port}.log")
        children.append(child)
        return child

    yield begin
    end(children, timedelta(seconds=3))


def answers(port: int) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    return False


def post(port: int, collected: int, requests: list[list[float]]) -> dict[str, object]:
    body = {"collected": collected, "requests": requests}
    found = httpx.post(f"http://127.0.0.1:{port}/sim/arrivals", json=body, trust_env=False).json()
    assert isinstance(found, dict)
    return found


def test_it_refuses_while_it_loads_and_then_serves_its_pages(start: Callable[..., Child]) -> None:
    """As the real one: no listener before the model is loaded; afterwards metrics with an honest start time."""
    port = free_port()
    start(port, 600)
    assert not answers(port)
    eventually(lambda: answers(port))
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'vllm:num_requests_running{engine="0",model_name="demo-30b"} 0.0' in page.text
    assert httpx.get(f"http://127.0.0.1:{port}/nothing", trust_env=False).status_code == 404
    assert httpx.post(f"http://127.0.0.1:{port}/sim/arrivals", content=b"{", trust_env=False).status_code == 422


def test_a_batch_sent_twice_is_served_once(start: Callable[..., Child], clock: ScaledClock) -> None:
    """Ids that the engine knows are not taken again; what was fetched is not told again."""
    port = free_port()
    start(port)
    eventually(lambda: answers(port))
    batch = [[number, clock.now().timestamp(), 100, 5, 0, 0] for number in (1, 2)]
    post(port, 0, batch)
    post(port, 0, batch)
    eventually(lambda: post(port, 0, [])["finished"] == [1, 2])
    answer = post(port, 2, [])
    assert (answer["first"], answer["finished"]) == (2, [])
    assert "vllm:request_success_total" in httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text


class EndpointList:
    """A page like the controller's list; `away` makes it answer 503."""

    def __init__(self, ports: list[int]) -> None:
        self.away = self.empty = False
        self._body = json.dumps([{"targets": [f"127.0.0.1:{port}"], "labels": {}} for port in ports]).encode()

    def page(self, path: str, _headers: Mapping[str, str], _body: bytes) -> Answer | None:
        return (503 if self.away else 200, b"[]" if self.empty else self._body) if path == "/list" else None


Routed = tuple[Gateway, EndpointList, list[Child]]


@pytest.fixture
def routed(start: Callable[..., Child], clock: ScaledClock) -> Iterator[Routed]:
    """A gateway in front of two engines, told of both by a list like the controller's."""
    ports = [free_port(), free_port()]
    children = [start(port) for port in ports]
    for port in ports:
        eventually(lambda port=port: answers(port))
    endpoints = EndpointList(ports)
    pages = PageServer(endpoints.page)
    pages.start()
    traffic = Traffic(Day(MIDNIGHT), Random(1), clock.now().timestamp())
    gateway = Gateway(clock, traffic, lambda: f"{pages.url}/list")
    gateway.start()
    yield gateway, endpoints, children
    gateway.stop()
    pages.stop()


def balanced(gateway: Gateway) -> bool:
    counts = gateway.counts()
    return counts.arrived == counts.finished + counts.lost + counts.outstanding + counts.waiting


def test_the_gateway_serves_everything_while_the_list_is_away(routed: Routed, clock: ScaledClock) -> None:
    """Its last list is good enough; when the doors are closed every request has been answered."""
    gateway, endpoints, _ = routed
    eventually(lambda: gateway.counts().finished > 50)
    endpoints.away = True
    eventually(lambda: gateway.counts().list_failures > 2)
    before = gateway.counts().finished
    eventually(lambda: gateway.counts().finished > before + 50)
    gateway.close_doors(clock.now())
    eventually(lambda: gateway.counts().arrived == gateway.counts().finished)
    assert gateway.counts().lost == 0
    assert gateway.counts().tokens > 0


def test_nobody_is_let_in_before_the_first_replica_serves(clock: ScaledClock, start: Callable[..., Child]) -> None:
    """Whoever came while a slow machine still made the fleet would be a backlog that no day has."""
    port = free_port()
    start(port)
    endpoints = EndpointList([port])
    endpoints.empty = True
    pages = PageServer(endpoints.page)
    pages.start()
    gateway = Gateway(clock, Traffic(Day(MIDNIGHT), Random(1), clock.now().timestamp()), lambda: f"{pages.url}/list")
    gateway.start()
    try:
        eventually(lambda: len(gateway.history) > 20)
        assert (gateway.counts().arrived, gateway.counts().waiting) == (0, 0)
        endpoints.empty = False
        eventually(lambda: gateway.counts().finished > 5)
        assert balanced(gateway)
    finally:
        gateway.stop()
        pages.stop()


def test_an_engine_that_is_stopped_under_load_loses_requests_and_the_gateway_counts_them(routed: Routed) -> None:
    """The truth that a drain has to prevent: the gateway sees it without asking Tidegate."""
    gateway, _, children = routed
    eventually(lambda: gateway.counts().finished > 20)
    end(children[:1], timedelta(seconds=3))
    eventually(lambda: gateway.counts().lost > 0)
    assert children[0].process.returncode == 0
    eventually(lambda: balanced(gateway))


def test_an_engine_that_is_killed_loses_them_too(routed: Routed) -> None:
    """SIGKILL says nothing; refused connections do."""
    gateway, _, children = routed
    eventually(lambda: gateway.counts().finished > 20)
    children[0].process.kill()
    eventually(lambda: gateway.counts().lost > 0)
