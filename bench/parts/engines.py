"""Engines on loopback, in a process of their own: `python engines.py COUNT`; prints a port a line, ends with stdin.

`Engines` starts that process. Its engines answer with a growing page of eight ranks; the names in the file HANGING,
one a line, hang instead.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]


class Engines:
    """Started by `with`; `hanging` is the set of ports that do not answer, to be changed at any time."""

    def __init__(self, count: int, hanging: Path | None = None) -> None:
        self._command = [sys.executable, str(Path(__file__)), str(count), *([str(hanging)] if hanging else [])]
        self.ports: list[int] = []

    def __enter__(self) -> Engines:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": _PATH}
        )
        self.ports = [int(text) for text in _stdout(self._process).readline().split()]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


_PATH = f"{ROOT / 'daemon'}:{ROOT / 'bench'}"


def _stdout(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise RuntimeError("no stdout")
    return process.stdout


def _server(page: object, hanging: Path | None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        scrapes = 0

        def do_GET(self) -> None:
            port = str(self.server.server_address[1])
            if hanging is not None and port in hanging.read_text().split():
                time.sleep(60)
            type(self).scrapes += 1
            body = page.page(self.scrapes)  # type: ignore[attr-defined]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


def main() -> None:
    from parts.bodies import Growing, eight_ranks

    page = Growing(eight_ranks())
    hanging = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    servers = [_server(page, hanging) for _ in range(int(sys.argv[1]))]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_address[1] for server in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
