"""A small HTTP server on loopback for the demo's own pages: simulated GPUs, and the receiver of webhooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

MAX_BODY_BYTES = 1024 * 1024

Answer = tuple[int, bytes]
Page = Callable[[str, Mapping[str, str], bytes], Answer | None]
"""From path, headers (lower case) and body to status and JSON body; None when the path is not its own."""


class PageServer:
    """Serves a page function on a free port of 127.0.0.1 until it is stopped."""

    def __init__(self, page: Page) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one write an answer, or Nagle's algorithm holds the body back for 40 ms
            timeout = 30

            def do_GET(self) -> None:
                self._serve(b"")

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                if length > MAX_BODY_BYTES:
                    self.close_connection = True
                    self._answer(413, b"{}")
                    return
                self._serve(self.rfile.read(length))

            def _serve(self, body: bytes) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._answer(*(page(self.path, headers, body) or (404, b'{"detail":"Not Found"}')))

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                """Say nothing: the terminal belongs to the live view."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def url(self) -> str:
        """The server's base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and let go of the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
