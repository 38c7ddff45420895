"""Engines on loopback, in a process of their own: `python -m parts.engines COUNT [HANGING]`.

`Engines` starts that process, which prints its ports and ends with its stdin. The engines answer with a growing page
of eight ranks; those whose ports stand in the file HANGING hang instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from parts.bodies import ROOT, Growing, eight_ranks

_PATH = f"{ROOT / 'daemon'}:{ROOT / 'bench'}"


class Engines:
    """Started by `with`; the file `hanging` names the ports that do not answer, and may change at any time."""

    def __init__(self, count: int, hanging: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "parts.engines", str(count), *([str(hanging)] if hanging else [])]
        self.ports: list[int] = []

    def __enter__(self) -> Engines:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": _PATH},
        )
        self.ports = [int(text) for text in _stdout(self._process).readline().split()]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def _stdout(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise RuntimeError("no stdout")
    return process.stdout


def _server(page: Growing, hanging: Path | None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        scrapes = 0

        def do_GET(self) -> None:
            port = str(server.server_port)
            if hanging is not None and port in hanging.read_text().split():
                time.sleep(60)
            type(self).scrapes += 1
            body = page.page(self.scrapes)
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
    page = Growing(eight_ranks())
    hanging = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    servers = [_server(page, hanging) for _ in range(int(sys.argv[1]))]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_port for server in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
