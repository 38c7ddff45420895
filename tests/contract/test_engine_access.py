"""Engines behind TLS, passwords and headers, on real sockets: who is trusted, what is sent, how long is waited."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fakes.certificates import Pair, authority, needs_openssl, signed

from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget
from tidegate.observe.scrape import EngineScraper
from tidegate.runtime.clock import SystemClock

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


class Engine(ThreadingHTTPServer):
    """A vLLM page; remembers the headers of each request, and waits before it answers."""

    daemon_threads = True

    def __init__(self, pair: Pair | None) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.seen: list[dict[str, str]] = []
        self.delay = threading.Event()
        self.delay.set()
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up; that is no trace for the log."""


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers.items()))
        self.server.delay.wait(10.0)
        body = b"vllm:num_requests_running 3\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def engine(pair: Pair | None = None) -> Iterator[tuple[Engine, EngineTarget]]:
    server = Engine(pair)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"{'https' if pair else 'http'}://127.0.0.1:{server.server_address[1]}/metrics"
    try:
        yield server, EngineTarget(EngineName("e"), url)
    finally:
        server.delay.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def scrape(*targets: EngineTarget, timeout: timedelta = timedelta(seconds=10)) -> list[EngineReading]:
    scraper = EngineScraper(timeout, SystemClock())
    try:
        return [scraper.read(target, NOW) for target in targets]
    finally:
        scraper.close()


@needs_openssl
def test_a_certificate_counts_when_its_authority_is_named(tmp_path: Path) -> None:
    ca, other = authority(tmp_path), authority(tmp_path, "other")
    with engine(signed(tmp_path, ca, "server")) as (_, target):
        good, plain, wrong, any_, nowhere = scrape(
            replace(target, ca_file=str(ca.cert)),
            target,
            replace(target, ca_file=str(other.cert)),
            replace(target, verify=False),
            replace(target, ca_file=str(tmp_path / "none.pem")),
        )
    assert (good.state, any_.state) == (EngineState.READY, EngineState.READY)
    for refused in (plain, wrong):
        assert refused.state is EngineState.UNREACHABLE
        assert "its certificate is not trusted: name its authorities in the engine's ca_file" in refused.problems[0]
    assert nowhere.state is EngineState.UNREACHABLE
    assert f"its ca_file {tmp_path}/none.pem cannot be used: No such file" in nowhere.problems[0]


@needs_openssl
def test_a_replaced_authority_is_taken_up_without_a_restart(tmp_path: Path) -> None:
    ca, other = authority(tmp_path), authority(tmp_path, "other")
    file = tmp_path / "trusted.pem"
    file.write_bytes(other.cert.read_bytes())
    scraper = EngineScraper(timedelta(seconds=10), SystemClock())
    with engine(signed(tmp_path, ca, "server")) as (_, target):
        trusting = replace(target, ca_file=str(file))
        assert scraper.read(trusting, NOW).state is EngineState.UNREACHABLE
        file.write_bytes(ca.cert.read_bytes() + b"\n")
        assert scraper.read(trusting, NOW).state is EngineState.READY
        scraper.close()


def test_headers_are_sent_along_and_stand_in_no_text(tmp_path: Path) -> None:
    with engine() as (server, target):
        signed_on = replace(target, headers=(("Authorization", "Basic aGk6aGk="), ("X-Api-Key", "s3cret words")))
        (reading,) = scrape(signed_on)
        assert reading.state is EngineState.READY
        assert server.seen[0]["Authorization"] == "Basic aGk6aGk="
        assert server.seen[0]["X-Api-Key"] == "s3cret words"
        assert server.seen[0]["Accept-Encoding"] == "identity"
    assert "s3cret" not in repr(signed_on)
    assert "aGk6" not in repr(signed_on)


def test_an_engine_has_its_own_time_out(tmp_path: Path) -> None:
    with engine() as (server, target):
        server.delay.clear()
        began = time.monotonic()
        (reading,) = scrape(replace(target, timeout=timedelta(seconds=0.3)))
        assert time.monotonic() - began < 5.0
    assert reading.state is EngineState.HANGING
    assert "within 0.3 s" in reading.problems[0]


@pytest.mark.parametrize("value", ["line\nbreak", "\xe9"])
def test_a_header_that_cannot_be_sent_is_a_reading_without_it(value: str) -> None:
    with engine() as (_, target):
        (reading,) = scrape(replace(target, headers=(("X-Api-Key", f"s3cret{value}"),)))
    assert reading.state is EngineState.UNAUTHORIZED
    assert not any("s3cret" in problem for problem in reading.problems)
