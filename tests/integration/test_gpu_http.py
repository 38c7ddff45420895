"""The HTTP GPU reader against a real server on loopback: good answers, bad ones, and none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidegate.model.reading import Gap, GpuFault, GpuSurvey, Missing
from tidegate.observe.gpu_http import HttpGpuReader

Play = Callable[[BaseHTTPRequestHandler], None]
GOOD = b'{"driver": "6.3.1", "gpus": [{"uuid": "GPU-1", "index": 0, "name": "MI300X", "utilization": 0.5}]}'


def answer(body: bytes, status: int = 200) -> Play:
    def play(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return play


def hang(request: BaseHTTPRequestHandler) -> None:
    request.connection.settimeout(5)
    request.rfile.read(1)  # until the reader gives up and closes


def drip(request: BaseHTTPRequestHandler) -> None:
    """Never silent for long enough to time out, never done."""
    request.send_response(200)
    request.end_headers()
    for _ in range(100):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(0.05)


@pytest.fixture
def serve() -> Iterator[Callable[[Play], str]]:
    servers: list[HTTPServer] = []

    def start(play: Play) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    play(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return f"http://user:secret@127.0.0.1:{server.server_port}/gpus?key=secret"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def read(url: str, now: datetime, seconds: float = 10.0) -> GpuSurvey:
    reader = HttpGpuReader(url, timedelta(seconds=seconds))
    survey = reader.read(now)
    reader.close()
    return survey


def test_a_good_answer_is_read(serve: Callable[[Play], str], now: datetime) -> None:
    survey = read(serve(answer(GOOD)), now)

    assert (survey.up, survey.driver, survey.source, survey.at) == (True, "6.3.1", "http", now)
    [gpu] = survey.gpus
    assert (gpu.uuid, gpu.name, gpu.utilization) == ("GPU-1", "MI300X", 0.5)
    assert gpu.power_watts == Missing(Gap.NOT_REPORTED)


@pytest.mark.parametrize(
    ("play", "fault", "words"),
    [
        (answer(b"<html>"), GpuFault.MALFORMED, "not JSON"),
        (answer(b""), GpuFault.MALFORMED, "not JSON"),
        (answer(b"\xff\xfe\x00"), GpuFault.MALFORMED, "not JSON"),
        (answer(b"[" * 100_000), GpuFault.MALFORMED, "not JSON"),
        (answer(b"{}"), GpuFault.MALFORMED, '"gpus"'),
        (answer(b" " * (1024 * 1024 + 1)), GpuFault.MALFORMED, "longer than"),
        (answer(GOOD, 503), GpuFault.UNREACHABLE, "HTTP 503"),
        (answer(GOOD, 302), GpuFault.UNREACHABLE, "HTTP 302"),
        (answer(b'{"up": false, "why": "amdgpu is not loaded"}'), GpuFault.UNKNOWN, "amdgpu is not loaded"),
    ],
)
def test_a_bad_answer_is_told_by_name(
    serve: Callable[[Play], str], now: datetime, play: Play, fault: GpuFault, words: str
) -> None:
    survey = read(serve(play), now)

    assert (survey.up, survey.gpus, survey.fault) == (False, (), fault)
    assert words in survey.why
    assert "secret" not in survey.why


@pytest.mark.parametrize("play", [hang, drip])
def test_a_server_that_does_not_finish_is_given_up(serve: Callable[[Play], str], now: datetime, play: Play) -> None:
    assert read(serve(play), now, seconds=0.3).fault is GpuFault.HANGING


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/gpus", "http://[::1", "gopher://x", "http://", "http://\x00/"])
def test_an_address_that_leads_nowhere_is_a_reason(url: str, now: datetime) -> None:
    assert read(url, now).fault is GpuFault.UNREACHABLE
