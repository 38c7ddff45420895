"""The scraper against servers on loopback that behave, misbehave, stall, trickle, cut off and lead astray."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.model.reading import Counter, EngineKind, EngineName, EngineReading, EngineState, Gauge, Rank
from tidegate.model.target import EngineTarget
from tidegate.observe.scrape import EngineScraper
from tidegate.runtime.clock import ScaledClock, SystemClock

_NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_PAGE = b"vllm:num_requests_running 3\n"
_SHORT = timedelta(seconds=0.4)
_LONG = timedelta(seconds=20)

Script = Callable[[socket.socket, bytes], None]
"""What a server does with one request: writes an answer, or does not."""


def answer(status: str = "200 OK", body: bytes = _PAGE, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Server:
    """Speaks raw bytes, one thread a connection; remembers requests and counts connections."""

    def __init__(self, script: Script) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while request := _request(connection):
                self.requests.append(request)
                self._script(connection, request)

    def close(self) -> None:
        for open_socket in (self._listener, *self._open):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()
        for thread in self._threads:
            thread.join(5)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(4096)
        if not part:
            return b""
        data += part
    return data


@contextmanager
def serving(script: Script | bytes) -> Iterator[Server]:
    def send(connection: socket.socket, _: bytes) -> None:
        assert isinstance(script, bytes)
        connection.sendall(script)

    server = Server(send if isinstance(script, bytes) else script)
    try:
        yield server
    finally:
        server.close()


def scrape(
    script: Script | bytes, path: str = "/metrics", token: str = "", timeout: timedelta = _LONG
) -> tuple[EngineReading, Sequence[bytes]]:
    with serving(script) as server:
        scraper = EngineScraper(timeout, SystemClock())
        target = EngineTarget(EngineName("e"), f"http://{server.address}{path}", token=token)
        try:
            return scraper.read(target, _NOW), server.requests
        finally:
            scraper.close()


def test_a_page_becomes_a_reading() -> None:
    """With the time of its arrival and how long it took; the request asks for what every engine answers well."""
    found, requests = scrape(answer("200 OK", _PAGE, "Content-Type: text/plain; version=0.0.4"), token="s3cret")

    assert (found.kind, found.state, found.gauges) == (EngineKind.VLLM, EngineState.READY, {_RUNNING: 3.0})
    assert _NOW <= found.at < _NOW + timedelta(seconds=10)
    assert found.duration_seconds > 0
    lines = requests[0].decode().split("\r\n")
    assert lines[0] == "GET /metrics HTTP/1.1"
    assert {"Accept: text/plain;version=0.0.4", "Accept-Encoding: identity", "Authorization: Bearer s3cret"} <= {*lines}


_RUNNING = (Gauge.RUNNING, Rank("0"))


def test_the_connection_is_kept() -> None:
    """One connection serves every scrape; no token, no header."""
    with serving(answer()) as server:
        scraper = EngineScraper(_LONG, SystemClock())
        target = EngineTarget(EngineName("e"), f"http://{server.address}/metrics")
        states = [scraper.read(target, _NOW).state for _ in range(3)]
        scraper.close()

    assert states == [EngineState.READY] * 3
    assert server.connections == 1
    assert b"Authorization" not in server.requests[0]


def test_a_connection_closed_in_between_is_made_anew() -> None:
    """Servers close idle connections at the very moment of a scrape: that is no failure."""
    served = threading.Event()

    def once(connection: socket.socket, _: bytes) -> None:
        if served.is_set():
            served.clear()
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(answer())
            served.set()

    with serving(once) as server:
        scraper = EngineScraper(_LONG, SystemClock())
        target = EngineTarget(EngineName("e"), f"http://{server.address}/metrics")
        states = [scraper.read(target, _NOW).state for _ in range(2)]
        scraper.close()

    assert states == [EngineState.READY] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    ("sent", "state", "words"),
    [
        (answer("404 Not Found"), EngineState.DISABLED, "--enable-metrics"),
        (answer("501 Not Implemented"), EngineState.DISABLED, "--metrics"),
        (answer("401 Unauthorized"), EngineState.UNAUTHORIZED, "wants a token"),
        (answer("403 Forbidden"), EngineState.UNAUTHORIZED, "refuses the token"),
        (answer("503 Service Unavailable"), EngineState.STARTING, "loading"),
        (answer("500 Oops", b"multiproc dir gone"), EngineState.MALFORMED, "HTTP 500 instead of metrics: multiproc"),
        (answer("204 No Content", b""), EngineState.EMPTY, "empty"),
        (answer("200 OK", b""), EngineState.EMPTY, "empty"),
        (answer("200 OK", b"<html>", "Content-Type: text/html"), EngineState.MALFORMED, "HTML"),
        (answer("200 OK", b"{}", "Content-Type: application/json"), EngineState.MALFORMED, "JSON"),
        (
            answer("400 Bad Request", b'{"error":{"code":400,"message":"model name is missing from the request"}}'),
            EngineState.MALFORMED,
            "HTTP 400: llama.cpp in router mode wants a model's name in the address",
        ),
        (answer("400 Bad Request", b"no"), EngineState.MALFORMED, "HTTP 400 instead of metrics: no"),
        (answer("200 OK", b"\x1f\x8b", "Content-Encoding: gzip"), EngineState.MALFORMED, "compressed"),
        (answer("200 OK", b"python_info 1\n"), EngineState.DISABLED, "--disable-log-stats"),
        (answer("200 OK", b"vllm:num_requests_running 3"), EngineState.TRUNCATED, "cut"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", EngineState.MALFORMED, "does not speak HTTP"),
    ],
)
def test_each_answer_has_its_state(sent: bytes, state: EngineState, words: str) -> None:
    """And says what to do; not one has a figure."""
    found, _ = scrape(sent)

    assert found.state is state
    assert words in found.problems[0]
    assert (found.gauges, found.counters) == ({}, {})


@pytest.mark.parametrize(
    ("listed", "read"),
    [
        (b'{"data":[{"id":"small","status":{"value":"unloaded"}},{"id":"other","status":{"value":"loaded"}}]}', False),
        (b'{"data":[{"id":"small","status":{"value":"loading"}}]}', False),
        (b'{"data":[{"id":"small","status":{"value":"loaded"}}]}', True),
        (b'{"data":[{"id":"small"}]}', True),
        (b'{"data":[]}', True),
        (b"not JSON", True),
    ],
)
def test_no_model_of_a_llama_cpp_router_is_loaded_by_a_look_at_it(listed: bytes, read: bool) -> None:
    """A page of a model that is not loaded loads it, so the list of models is asked first."""

    def answers(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer(body=listed if b" /models " in request else b"llamacpp:requests_processing 1\n"))

    with serving(answers) as server:
        scraper = EngineScraper(_LONG, SystemClock())
        found = scraper.read(_target(f"http://{server.address}/metrics?model=small"), _NOW)
        scraper.close()

    asked = [request.split()[1] for request in server.requests]
    assert asked == [b"/models", b"/metrics?model=small"][: 1 + read]
    assert found.state is (EngineState.READY if read else EngineState.DISABLED)
    assert read or "reading its page would load it" in found.problems[0]


def test_the_path_tells_whose_families_without_a_prefix_are() -> None:
    """TensorRT-LLM 1.0 to 1.2 has five, and nothing in them says so."""
    body = b'request_success_total{finished_reason="stop",model_name="undefined"} 3\n'
    page = answer("200 OK", body, "Content-Type: text/plain")
    found = {}
    with serving(lambda connection, _: connection.sendall(page)) as server:
        scraper = EngineScraper(_LONG, SystemClock())
        for path in ("/metrics", "/prometheus/metrics"):
            found[path] = scraper.read(_target(f"http://{server.address}{path}"), _NOW)
        scraper.close()

    assert found["/metrics"].state is EngineState.MALFORMED
    assert found["/prometheus/metrics"].kind is EngineKind.TENSORRT_LLM
    assert found["/prometheus/metrics"].counters[Counter.FINISHED, Rank("0")] == 3.0


def test_nothing_listens() -> None:
    """Refused is not hanging."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = EngineScraper(_LONG, SystemClock()).read(_target(f"http://127.0.0.1:{port}/metrics"), _NOW)

    assert found.state is EngineState.UNREACHABLE
    assert found.problems == (f"http://127.0.0.1:{port}/metrics: connection refused: nothing listens there",)


def _target(url: str, token: str = "") -> EngineTarget:
    return EngineTarget(EngineName("e"), url, token=token)


def test_no_time_to_connect() -> None:
    """A host that is switched off does not refuse: nothing comes back at all."""
    found, requests = scrape(answer(), timeout=timedelta())

    assert (found.state, requests) == (EngineState.UNREACHABLE, [])
    assert "is the host up?" in found.problems[0]


def test_a_body_that_ends_early_gives_no_counter() -> None:
    """The length says that there was more."""

    def cut(connection: socket.socket, _: bytes) -> None:
        connection.sendall(answer("200 OK", _PAGE * 10)[:-40])
        connection.shutdown(socket.SHUT_RDWR)

    found, _ = scrape(cut)

    assert found.state is EngineState.TRUNCATED
    assert (found.gauges, found.counters) == ({}, {})


def test_a_chunked_body_that_ends_early_gives_no_counter() -> None:
    """So does the last chunk that did not come."""

    def cut(connection: socket.socket, _: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + f"{len(_PAGE):x}\r\n".encode() + _PAGE + b"\r\n")
        connection.shutdown(socket.SHUT_RDWR)

    assert scrape(cut)[0].state is EngineState.TRUNCATED


def test_a_server_that_hangs_up_is_unreachable() -> None:
    """Without one byte of an answer, twice."""
    found, requests = scrape(lambda connection, _: connection.shutdown(socket.SHUT_RDWR))

    assert found.state is EngineState.UNREACHABLE
    assert len(requests) == 2


def _stall(connection: socket.socket, _: bytes) -> None:
    """Never answers; ends when the scraper or the test hangs up."""
    connection.recv(1)


def _stall_in_body(connection: socket.socket, _: bytes) -> None:
    connection.sendall(answer("200 OK", _PAGE * 2)[:-5])
    connection.recv(1)


def _trickle(connection: socket.socket, _: bytes) -> None:
    """A header without end, one byte at a time: each read is quick, and none is the last."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    connection.settimeout(0.02)
    while True:
        connection.sendall(b"x")
        try:
            if not connection.recv(1):
                return
        except TimeoutError:
            continue


@pytest.mark.parametrize("script", [_stall, _stall_in_body, _trickle])
def test_no_server_holds_a_scrape_beyond_its_deadline(script: Script) -> None:
    """The deadline is the whole scrape's, however the server spends it."""
    found, _ = scrape(script, timeout=_SHORT)

    assert found.state is EngineState.HANGING
    assert "within 0.4 s" in found.problems[0]
    assert found.duration_seconds < 5


def test_a_deadline_is_in_real_seconds() -> None:
    """On a clock played a thousand times as fast the scrape has as long as ever; its time is the played one."""
    clock = ScaledClock(datetime.now(UTC).timestamp(), _NOW, 1000.0)
    with serving(answer()) as server:
        scraper = EngineScraper(timedelta(seconds=20), clock)
        found = scraper.read(_target(f"http://{server.address}/metrics"), _NOW)
        scraper.close()

    assert found.state is EngineState.READY
    assert found.at - _NOW >= timedelta(seconds=100 * found.duration_seconds)


def test_a_body_without_end_is_given_up() -> None:
    """At the limit, not at the end."""

    def endless(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"# " + b"x" * 65534)

    found, _ = scrape(endless)

    assert found.state is EngineState.MALFORMED
    assert "over 16777216 bytes" in found.problems[0]


def test_a_redirect_on_the_same_server_is_followed() -> None:
    """`/metrics` to `/metrics/`, as ASGI mounts do; the token goes along."""

    def redirect(connection: socket.socket, request: bytes) -> None:
        moved = answer("307 Temporary Redirect", b"", "Location: /metrics/")
        connection.sendall(answer() if request.startswith(b"GET /metrics/ ") else moved)

    found, requests = scrape(redirect, token="t")

    assert found.state is EngineState.READY
    assert b"Authorization: Bearer t" in requests[1]


@pytest.mark.parametrize("there", ["http://127.0.0.2/metrics", "https://127.0.0.1/metrics", "http://x:99999999/"])
def test_a_redirect_to_another_server_is_not_followed(there: str) -> None:
    """The token is for nobody else."""
    found, requests = scrape(answer("302 Found", b"", f"Location: {there}"), token="t")

    assert found.state in (EngineState.MALFORMED, EngineState.UNREACHABLE)
    assert len(requests) == 1


def test_redirects_in_a_circle_end() -> None:
    """After three."""
    found, requests = scrape(answer("302 Found", b"", "Location: /metrics"))

    assert found.state is EngineState.MALFORMED
    assert len(requests) == 4


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x/", "http://", "http://x:0/", "http://x:y/", "http://é/"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    """Nothing is sent."""
    found = EngineScraper(_SHORT, SystemClock()).read(_target(url), _NOW)

    assert (found.state, found.problems) == (
        EngineState.UNREACHABLE,
        ("the address is not one of http or https: correct it",),
    )


@pytest.mark.parametrize("token", ["line\nbreak", "é"])
def test_what_is_no_token_is_said_without_it(token: str) -> None:
    """A secret stays out of the words."""
    found = EngineScraper(_SHORT, SystemClock()).read(_target("http://127.0.0.1:9/metrics", token), _NOW)

    assert found.state is EngineState.UNAUTHORIZED
    assert token not in found.problems[0]


def test_words_show_no_password() -> None:
    """Nor a query."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://user:pass@127.0.0.1:{port}/metrics?key=secret"

    found = EngineScraper(_LONG, SystemClock()).read(_target(url), _NOW)

    assert found.problems[0].startswith(f"http://127.0.0.1:{port}/metrics: ")
    assert "secret" not in found.problems[0]
