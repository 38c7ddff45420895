"""A simulated engine as a process: vLLM's exposition over HTTP, fed by the demo's gateway; standard library only.

As the real one it does not answer while it loads, and SIGTERM cuts what is in flight: a drain has to prevent that.
Run as `python -m tidegate.demo.engine_server --port 8100`; time is played when `TIDEGATE_CLOCK` says so.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, ClassVar

from tidegate.demo.engine_model import Arrival, Engine, EngineSpec
from tidegate.demo.engine_page import CONTENT_TYPE, Page
from tidegate.runtime.clock import Clock, clock_from_environment

MAX_BODY_BYTES = 1024 * 1024
LINGER_SECONDS = 1.0
"""Real seconds in which answers already earned may still be fetched after a SIGTERM."""


class Served:
    """The engine behind a lock, and what of its finished requests nobody has fetched yet."""

    def __init__(self, clock: Clock, started: float, model: str) -> None:
        self._clock = clock
        self._lock = Lock()
        self._page = Page(model)
        self._engine = Engine(EngineSpec(), self._now())
        self._engine.tally.started = started
        self._uncollected: list[int] = []
        self._collected = 0
        self._known: set[int] = set()
        self._refused: list[int] = []
        self._stopping = False
        self.fetched = Event()
        """Set once a stopping engine has told what became of the requests it held."""

    def page(self) -> str:
        """The exposition text now."""
        with self._lock:
            self._play()
            return self._page.render(self._engine)

    def busy(self) -> dict[str, float]:
        """Played seconds in which the engine ran, and how full its memory is: what its GPU would show."""
        with self._lock:
            self._play()
            return {
                "at": self._now(),
                "busy_seconds": self._engine.tally.busy_seconds,
                "kv_cache_usage": self._engine.kv_usage,
            }

    def exchange(self, collected: int, arrivals: Sequence[Arrival]) -> dict[str, Any]:
        """Take requests (one sent twice is taken once) and give the ids finished beyond the first `collected`."""
        with self._lock:
            self._play()
            fetched = min(max(0, collected - self._collected), len(self._uncollected))
            del self._uncollected[:fetched]
            self._collected += fetched
            fresh = [arrival for arrival in arrivals if arrival.id not in self._known]
            if self._stopping:
                self._refused += [arrival.id for arrival in fresh if arrival.id not in self._refused]
            else:
                self._known.update(arrival.id for arrival in fresh)
                for arrival in fresh:
                    self._engine.accept(arrival)
            return {
                "started": self._engine.tally.started,
                "first": self._collected,
                "finished": list(self._uncollected),
                "stopping": self._stopping,
                "refused": list(self._refused),
            }

    def stop(self) -> None:
        """Cut everything in flight; what has not arrived yet is refused, not lost."""
        with self._lock:
            self._play()
            self._stopping = True
            self._refused = self._engine.withdraw_expected()
            if not (self._uncollected or self._refused or self._engine.in_flight):
                self.fetched.set()

    def _play(self) -> None:
        if self._stopping:
            return
        self._engine.advance(self._now())
        while self._engine.finished:
            done = self._engine.finished.popleft()
            self._uncollected.append(done)

    def _now(self) -> float:
        return self._clock.now().timestamp()


class Handler(BaseHTTPRequestHandler):
    """The engine's few pages."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write an answer, or Nagle's algorithm holds the body back for 40 ms
    timeout = 30
    served: ClassVar[Served]

    def do_GET(self) -> None:
        """Answer /metrics, /health and /sim/busy."""
        if self.path == "/metrics":
            self._answer(200, self.served.page().encode(), CONTENT_TYPE)
        elif self.path == "/health":
            self._answer(200, b"")
        elif self.path == "/sim/busy":
            self._answer(200, json.dumps(self.served.busy()).encode())
        else:
            self._answer(404, b'{"detail":"Not Found"}')

    def do_POST(self) -> None:
        """Take requests at /sim/arrivals: {"collected": n, "requests": [[id, at, prompt, output, prefix, shared]]}."""
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/sim/arrivals" or not 0 < length <= MAX_BODY_BYTES:
            self.close_connection = True
            self._answer(404 if self.path != "/sim/arrivals" else 413, b"{}")
            return
        try:
            body = json.loads(self.rfile.read(length))
            arrivals = [Arrival(*row) for row in body["requests"]]
            collected = int(body["collected"])
        except (ValueError, TypeError, KeyError) as error:
            self._answer(422, json.dumps({"detail": str(error)}).encode())
            return
        answer = self.served.exchange(collected, arrivals)
        self._answer(200, json.dumps(answer).encode())
        if answer["stopping"]:
            self.wfile.flush()
            self.served.fetched.set()

    def _answer(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing: the demo's terminal belongs to its live view."""


class Server(ThreadingHTTPServer):
    """Threads that do not outlive the process, and a backlog for the gateway and the agent at once."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Load, serve until SIGTERM, linger until the answers that were earned are fetched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="demo-30b")
    parser.add_argument("--load-seconds", type=float, default=480.0, help="played seconds before it answers")
    options = parser.parse_args(arguments)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    clock = clock_from_environment()
    started = clock.now().timestamp()
    if clock.wait(stop, timedelta(seconds=options.load_seconds)):
        return 0
    served = Served(clock, started, options.model)
    Handler.served = served
    with Server(("127.0.0.1", options.port), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        stop.wait()
        served.stop()
        served.fetched.wait(LINGER_SECONDS)
        server.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
