"""A serving engine that only counts: `python tiny_engine.py PORT [FOLDER]`, or `TinyEngine` inside a test.

It speaks vLLM's exposition. With a FOLDER its number of running requests is what the file FOLDER/PORT holds.
"""

from __future__ import annotations

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

_PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="tiny"}} {running}
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} 0.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="tiny"}} 0.25
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="tiny"}} {prompt}
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {generated}
"""


class TinyEngine:
    """Serves `/metrics` on loopback; every page has a few tokens more than the one before."""

    def __init__(self, port: int = 0, folder: Path | None = None) -> None:
        engine = self
        self.running = 1.0
        self.pages = 0
        self.hangs = False
        self.let_go = threading.Event()
        self._folder = folder

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if engine.hangs:
                    engine.let_go.wait(20.0)
                body = engine.page().encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"

    def page(self) -> str:
        self.pages += 1
        return _PAGE.format(running=self._in_flight(), prompt=100.0 * self.pages, generated=10.0 * self.pages)

    def _in_flight(self) -> float:
        if self._folder is None:
            return self.running
        told = self._folder / str(self.port)
        return float(told.read_text()) if told.exists() else 0.0

    def serve(self) -> None:
        self._server.serve_forever(0.05)

    def __enter__(self) -> TinyEngine:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    TinyEngine(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None).serve()
