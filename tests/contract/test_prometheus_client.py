"""Asking a Prometheus that is slow, wrong, half there or somebody else: one clear error each, in time and of a size."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tidegate.model.scrape import PrometheusPlace
from tidegate.observe.prometheus import Prometheus
from tidegate.runtime.errors import Permanent, TidegateError, Transient

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GOOD = {"resultType": "matrix", "result": [{"metric": {"__name__": "x"}, "values": [[1.5, "2"], [2.5, "NaN"]]}]}
Behaviour = Callable[[BaseHTTPRequestHandler], None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self)  # type: ignore[attr-defined]
        self.server.behaviour(self)  # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None: ...


class Server:
    """A Prometheus that behaves as it is told."""

    def __init__(self) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self.asked: list[BaseHTTPRequestHandler] = []
        self._http.asked = self.asked  # type: ignore[attr-defined]
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def says(self, behaviour: Behaviour) -> None:
        self._http.behaviour = behaviour  # type: ignore[attr-defined]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def parameters(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.asked[-1].path).query)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def answer(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    def behave(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return behave


def said(data: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": data, **more}).encode()


def client(server: Server, **changes: Any) -> Prometheus:
    place = PrometheusPlace(server.url, **{"timeout": timedelta(seconds=1), **changes})
    return Prometheus(lambda: place)


def refusal(asked: Prometheus) -> TidegateError:
    with pytest.raises(TidegateError) as refused:
        asked.raw("{x='y'}", NOON, MINUTE)
    return refused.value


def test_samples_come_as_they_were_scraped(server: Server) -> None:
    server.says(answer(said(GOOD)))
    (series,) = client(server, headers=(("X-Scope-OrgID", "team-a"),)).raw('{__name__="x"}', NOON, MINUTE).series
    assert series.labels == {"__name__": "x"}
    assert series.points[0] == (1.5, 2.0)
    assert series.points[1][1] != series.points[1][1]
    assert server.parameters()["query"] == ['{__name__="x"}[60000ms]']
    assert server.parameters()["partial_response"] == ["false"]
    assert server.asked[-1].headers["X-Scope-OrgID"] == "team-a"


def test_a_packed_answer_is_unpacked(server: Server) -> None:
    server.says(answer(gzip.compress(said(GOOD)), Content_Encoding="gzip"))
    assert len(client(server).raw("x", NOON, MINUTE).series) == 1


def test_an_empty_answer_is_an_empty_list(server: Server) -> None:
    server.says(answer(said({"resultType": "matrix", "result": []})))
    assert client(server).raw("x", NOON, MINUTE).series == []


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (answer(b"<html>502</html>", 502), Transient, "502"),
        (answer(b"<html>sign in</html>"), Permanent, "a page and not JSON"),
        (answer(b'{"status":"error","error":"no org id"}', 401), Permanent, "no org id; it wants to know who asks"),
        (answer(b'{"status":"error","error":"too many samples"}', 422), Permanent, "raise its limits"),
        (answer(b"not found", 404), Permanent, "before /api/v1"),
        (answer(b'{"status":"error","error":"timed out"}', 503), Transient, "timed out"),
        (answer(b"", 302, Location="http://169.254.169.254/"), Permanent, "sends us elsewhere"),
        (answer(b'{"status":"error","error":"busy"}'), Transient, "busy"),
        (answer(b"[1, 2]"), Permanent, "a page and not JSON"),
        (answer(said({"resultType": "vector", "result": []})), Transient, "a vector, not a matrix"),
        (answer(said({"resultType": "matrix", "result": [{"metric": {}}]})), Transient, "no matrix"),
        (answer(said({"resultType": "matrix", "result": 5})), Transient, "no matrix"),
        (answer(said(None)), Transient, "no matrix"),
        (answer(said(GOOD, warnings=["store 10.0.0.7 is away"])), Transient, "in part only (store 10.0.0.7 is away)"),
        (answer(said(GOOD, isPartial=True)), Transient, "in part only"),
        (answer(b"nonsense", Content_Encoding="gzip"), Transient, "reached, or hung up"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    server: Server, behaviour: Behaviour, kind: type[TidegateError], words: str
) -> None:
    server.says(behaviour)
    error = refusal(client(server))
    assert type(error) is kind
    assert words in str(error)
    assert len(server.asked) == 1  # neither tried again nor followed


def hang(request: BaseHTTPRequestHandler) -> None:
    time.sleep(3.0)


def trickle(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "100000")
    request.end_headers()
    try:
        for _ in range(100):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        request.close_connection = True


def flood(request: BaseHTTPRequestHandler) -> None:
    body = gzip.compress(b" " * (8 << 20))
    answer(body, Content_Encoding="gzip")(request)


def cut(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"status":"success"')
    request.close_connection = True


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [(hang, "no answer in time"), (trickle, "took longer"), (flood, "larger than 1 MiB"), (cut, "hung up")],
)
def test_an_answer_is_bounded_in_time_and_size(server: Server, behaviour: Behaviour, words: str) -> None:
    server.says(behaviour)
    begun = time.monotonic()
    assert words in str(refusal(client(server, most_bytes=1 << 20)))
    assert time.monotonic() - begun < 2.5


def test_a_server_that_is_not_there_is_waited_for_by_the_next_poll(server: Server) -> None:
    server.says(answer(said(GOOD)))
    gone = Server()
    gone.close()
    error = refusal(client(gone))
    assert isinstance(error, Transient)
    assert "cannot be reached" in str(error)


def test_no_error_repeats_a_header_or_the_path(server: Server) -> None:
    server.says(answer(b"", 500))
    asked = client(server, headers=(("Authorization", "Bearer s3cret"),))
    assert "s3cret" not in str(refusal(asked)) + repr(PrometheusPlace("http://x", (("Authorization", "s3cret"),)))


def test_labels_of_series_are_a_list(server: Server) -> None:
    server.says(answer(said([{"__name__": "x", "pool": "a"}])))
    assert client(server).labels("x", NOON - MINUTE, NOON) == [{"__name__": "x", "pool": "a"}]
