"""The HTTP server: it serves on a thread, says who holds a taken port, and stops."""

from __future__ import annotations

import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tidegate.runtime.errors import Permanent
from tidegate.runtime.serve import HttpServer, check_free, tcp


async def _hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", _hello)])


def test_it_serves_on_a_free_port_until_it_is_stopped() -> None:
    server = HttpServer(APP, tcp("127.0.0.1", 0), "agent")
    server.start()
    try:
        assert httpx.get(f"http://127.0.0.1:{server.port}/").text == "hello"
        port = server.port
    finally:
        server.stop()

    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/")


def test_a_taken_port_is_named_with_the_remedy() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Permanent, match=f"port {port} on 127.0.0.1 is taken.*ss -ltnp"):
            HttpServer(APP, tcp("127.0.0.1", port), "agent").start()


def test_a_taken_port_is_seen_without_serving() -> None:
    """And a free one is left as it was found."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Permanent, match=f"port {port} on 127.0.0.1 is taken"):
            check_free("127.0.0.1", port, "controller")
    check_free("127.0.0.1", port, "controller")
    check_free("127.0.0.1", port, "controller")


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(Permanent, match="not an address of this machine"):
        HttpServer(APP, tcp("192.0.2.1", 0), "agent").start()
