"""Requests that are handed on to the controller's own process arrive as they came, and are answered as it answers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from fakes.agent_process import eventually
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tidegate.link.forward import Forward
from tidegate.link.limits import BodyLimit
from tidegate.runtime.serve import HttpServer, tcp, unseen

_PIECES = 5
left: list[str] = []
"""Which uploads were left in the middle."""


async def _echo(request: Request) -> JSONResponse:
    return JSONResponse(
        {
            "method": request.method,
            "target": (request.scope["raw_path"] + b"?" + request.scope["query_string"]).decode(),
            "headers": dict(request.headers),
        },
        headers={"X-Of-Ours": "kept"},
    )


async def _count(request: Request) -> JSONResponse:
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
    except ClientDisconnect:
        left.append("upload")
        raise
    return JSONResponse(size)


async def _refuse(_request: Request) -> Response:
    return Response(status_code=413, headers={"Connection": "close"})


async def _refuse_unread(request: Request) -> Response:
    return Response(status_code=401 if "authorization" not in request.headers else 200)


async def _endless(_request: Request) -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1000)
                await asyncio.sleep(0.01)
        finally:
            left.append("answer")

    return StreamingResponse(pieces())


async def _slow(request: Request) -> Response:
    while not await request.is_disconnected():
        await asyncio.sleep(0.01)
    left.append("wait")
    return Response()


async def _stream(_request: Request) -> StreamingResponse:
    return StreamingResponse((bytes(10_000) for _ in range(_PIECES)), headers={"Content-Type": "x/y"})


APP = Starlette(
    routes=[
        Route("/echo/{rest:path}", _echo, methods=["GET", "POST", "DELETE"]),
        Route("/count", _count, methods=["POST", "PUT"]),
        Route("/refuse", _refuse, methods=["POST"]),
        Route("/stream", _stream),
        Route("/guarded", _refuse_unread, methods=["POST"]),
        Route("/endless", _endless),
        Route("/slow", _slow),
    ]
)


@pytest.fixture(scope="module")
def inner() -> Iterator[HttpServer]:
    server = HttpServer(BodyLimit(APP, seconds=1.0), unseen, "inner")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def outer(inner: HttpServer) -> Iterator[HttpServer]:
    server = HttpServer(Forward(inner.address), tcp("127.0.0.1", 0), "outer")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(outer: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{outer.port}", timeout=30) as made:
        yield made


def raw(port: int, message: bytes, pieces: int = 1) -> bytes:
    """What is answered to these very bytes."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(message)
        answer = b""
        while answer.count(b"\r\n\r\n") < pieces:
            piece = connection.recv(65_536)
            if not piece:
                break
            answer += piece
        return answer


def test_target_method_and_headers_arrive_as_they_came(outer: HttpServer) -> None:
    """Neither decoded nor put in order, whatever a client library would make of them."""
    answer = raw(
        outer.port,
        b"DELETE /echo/%2e%2e/./a%20b//c?x=%00&y=%zz&& HTTP/1.1\r\nHost: fleet:8443\r\nX-A: 1\r\n"
        b"Authorization: Bearer t\r\nTE: trailers\r\nConnection: close\r\n\r\n",
        pieces=2,
    )
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"method":"DELETE"' in answer
    assert b'"target":"/echo/%2e%2e/./a%20b//c?x=%00&y=%zz&&"' in answer
    assert b'"host":"fleet:8443"' in answer
    assert b'"authorization":"Bearer t"' in answer
    assert b'"te"' not in answer, "which is said to one server alone"
    assert answer.lower().count(b"\r\ndate:") == 1
    assert b"x-of-ours: kept" in answer.lower()


def test_bodies_pass_in_pieces_both_ways(client: httpx.Client) -> None:
    def upload() -> Iterator[bytes]:
        for _ in range(_PIECES):
            yield bytes(10_000)

    assert client.put("/count", content=upload()).json() == 10_000 * _PIECES
    assert client.post("/count", content=b"abc").json() == 3
    assert client.post("/count", content=b"").json() == 0
    found = client.get("/stream")
    assert (len(found.content), found.headers["content-type"]) == (10_000 * _PIECES, "x/y")
    assert client.head("/stream").content == b""
    assert client.get("/nothing").status_code == 404
    assert client.put("/echo/").status_code == 405


def test_an_answer_that_does_not_wait_for_the_body_arrives(client: httpx.Client) -> None:
    assert client.post("/refuse", content=bytes(5_000_000)).status_code == 413


def begun(port: int, head: bytes) -> socket.socket:
    """A connection on which these bytes were sent."""
    connection = socket.create_connection(("127.0.0.1", port), 20)
    connection.sendall(head)
    return connection


def test_an_answer_that_does_not_want_the_body_does_not_wait_for_it(outer: HttpServer) -> None:
    """Whoever has no token hears so before he has sent 16 GB; so does one who asks first."""
    post = b"POST /guarded HTTP/1.1\r\nHost: c\r\nContent-Length: 60000\r\n"
    for head in (post + b"\r\nabc", post + b"Expect: 100-continue\r\n\r\n"):
        with begun(outer.port, head) as connection:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 401")


def test_one_who_asks_first_is_told_to_go_on(outer: HttpServer) -> None:
    head = b"POST /count HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with begun(outer.port, head) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 100")
        connection.sendall(b"abc")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_body_that_is_too_large_is_refused_at_once(outer: HttpServer) -> None:
    """The bounds are the other side's."""
    large = b"POST /count HTTP/1.1\r\nHost: c\r\nContent-Length: 99999999\r\n\r\nabc"
    with begun(outer.port, large) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("request_line", "what"),
    [
        (b"POST /count HTTP/1.1\r\nContent-Length: 1000\r\n", "upload"),
        (b"GET /endless HTTP/1.1\r\n", "answer"),
        (b"GET /slow HTTP/1.1\r\n", "wait"),
    ],
)
def test_one_who_goes_away_is_gone_for_the_other_side_too(outer: HttpServer, request_line: bytes, what: str) -> None:
    left.clear()
    with begun(outer.port, request_line + b"Host: c\r\n\r\n"):
        time.sleep(0.1)
    eventually(lambda: left == [what], f"the end of the {what}")


def test_headers_that_cannot_be_handed_on_are_refused(outer: HttpServer) -> None:
    assert b"200 OK" in raw(outer.port, b"GET /echo/ HTTP/1.0\r\n\r\n", 2), "a host is no must before 1.1"
    twice = b"GET /echo/ HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n"
    assert raw(outer.port, twice).startswith(b"HTTP/1.1 400")


def test_where_nobody_answers_the_remedy_is_told() -> None:
    gone = HttpServer(APP, unseen, "gone")
    gone.start()
    address = gone.address
    gone.stop()
    server = HttpServer(Forward(address), tcp("127.0.0.1", 0), "outer")
    server.start()
    try:
        found = httpx.post(f"http://127.0.0.1:{server.port}/count", content=b"abc")
    finally:
        server.stop()
    assert (found.status_code, found.headers["retry-after"]) == (503, "5")
    assert "try again" in found.json()["remedy"]


def test_a_second_piece_does_not_wait_for_the_first_to_be_acknowledged() -> None:
    """asyncio turns Nagle's algorithm off where a socket says that it is TCP; else such answers took 40 ms."""
    with tcp("127.0.0.1", 0)("test") as listening:
        assert listening.proto == socket.IPPROTO_TCP
