"""An engine that misbehaves at random, by a seed: it restarts, hangs, talks garbage, and breaks off in the middle.

It remembers every total that it ever told in a whole page, so that a figure which nobody said can be found.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

RANKS = ("0", "1")
_BOUNDS = ("0.1", "1.0", "10.0", "+Inf")
_HANG_SECONDS = 3.0
_FAULT_SHARE = 0.25
_RESTART_SHARE = 0.03


class ChaosEngine:
    """Serves vLLM's exposition on loopback; `with_start` tells when the process began, as some engines do not."""

    def __init__(self, name: str, seed: int, *, with_start: bool) -> None:
        self.name = name
        self.restarts = 0
        self.generated: set[float] = set()
        """Every sum over the ranks that was told in a whole page."""
        self.faults: dict[str, int] = {}
        self._random, self._lock = Random(f"{seed} {name}"), threading.Lock()
        self._with_start = with_start
        self._let_go = threading.Event()
        self._left = ("", 0)
        self._begin()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> ChaosEngine:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request, somehow."""
        with self._lock:
            fault = self._draw()
            page = self._page(fault)
        _ANSWERS.get(fault, _whole)(handler, page, self._let_go)

    def _draw(self) -> str:
        fault, left = self._left
        if not left and self._random.random() < _FAULT_SHARE:
            fault, left = self._random.choice(_FAULTS), self._random.randint(1, 4)
        elif not left:
            fault = ""
        self._left = fault, max(0, left - 1)
        if fault:
            self.faults[fault] = self.faults.get(fault, 0) + 1
        if self._random.random() < _RESTART_SHARE:
            self.restarts += 1
            self._begin()
        return fault

    def _begin(self) -> None:
        self._started = 1_800_000_000.0 + 100.0 * self.restarts
        self._tokens = dict.fromkeys(RANKS, 0.0)
        self._steps = dict.fromkeys(RANKS, 0.0)

    def _page(self, fault: str) -> bytes:
        for rank in RANKS:
            self._steps[rank] += self._random.randint(0, 5)
            self._tokens[rank] += self._random.randint(0, 500)
        lines = [f"process_start_time_seconds {self._started}"] if self._with_start else []
        for family, value in self._values().items():
            name, _, extra = family.partition("|")
            for rank in RANKS:
                labels = f'engine="{rank}",model_name="m"{extra and "," + extra}'
                lines.append(f"{name}{{{labels}}} {value(rank)!r}")
        if fault in ("", "twice"):
            self.generated.add(sum(self._tokens.values()))
        spoil = _SPOILT.get(fault, lambda page, _: page)
        return spoil("\n".join(lines).encode() + b"\n", self._random)

    def _values(self) -> dict[str, Callable[[str], float]]:
        tokens, steps = self._tokens, self._steps
        counters = {
            "vllm:num_requests_running": lambda _: 3.0,
            "vllm:num_requests_waiting": lambda _: 1.0,
            "vllm:kv_cache_usage_perc": lambda _: 0.5,
            "vllm:prompt_tokens_total": lambda rank: 2 * tokens[rank] + 1,
            "vllm:prefix_cache_queries_total": lambda rank: 2 * tokens[rank] + 2,
            "vllm:prefix_cache_hits_total": lambda rank: tokens[rank] + 3,
            "vllm:generation_tokens_total": lambda rank: tokens[rank],
            'vllm:request_success_total|finished_reason="stop"': lambda rank: steps[rank] + 4,
            "vllm:iteration_tokens_total_count": lambda rank: steps[rank],
        }
        name = "vllm:time_to_first_token_seconds"
        for place, bound in enumerate(_BOUNDS):
            share = (place + 1) / len(_BOUNDS)
            counters[f'{name}_bucket|le="{bound}"'] = lambda rank, share=share: steps[rank] * share
        counters[f"{name}_sum"] = lambda rank: steps[rank] / 2
        counters[f"{name}_count"] = lambda rank: steps[rank]
        return counters


def _not_a_number(page: bytes, _random: Random) -> bytes:
    return re.sub(rb'(generation_tokens_total{engine="1"[^ ]*) .*', rb"\1 NaN", page)


_SPOILT: dict[str, Callable[[bytes, Random], bytes]] = {
    "bad line": lambda page, _: page.replace(b"generation_tokens_total", b"generation_tokens_total oops", 1),
    "not a number": _not_a_number,
    "twice": lambda page, _: page + page,
    "html": lambda _page, _: b"<!doctype html><title>502 Bad Gateway</title>\n",
    "empty": lambda _page, _: b"",
    "half a line": lambda page, random: page[: random.randrange(len(page) // 2, len(page) - 1)].rstrip(b"\n"),
    "garbage": lambda _page, random: random.randbytes(random.randint(1, 4000)),
}
"""Bodies that are not what they should be."""


def _head(handler: BaseHTTPRequestHandler, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def _whole(handler: BaseHTTPRequestHandler, page: bytes, _let_go: threading.Event) -> None:
    _head(handler, Content_Length=str(len(page)))
    handler.wfile.write(page)


def _hang(handler: BaseHTTPRequestHandler, _page: bytes, let_go: threading.Event) -> None:
    let_go.wait(_HANG_SECONDS)
    handler.close_connection = True


def _no_answer(handler: BaseHTTPRequestHandler, _page: bytes, _let_go: threading.Event) -> None:
    handler.close_connection = True


def _cut(handler: BaseHTTPRequestHandler, page: bytes, _let_go: threading.Event) -> None:
    _head(handler, Content_Length=str(len(page)))
    handler.wfile.write(page[: len(page) // 2])
    handler.close_connection = True


def _cut_in_chunks(handler: BaseHTTPRequestHandler, page: bytes, _let_go: threading.Event) -> None:
    _head(handler, Transfer_Encoding="chunked")
    part = page[: page.index(b"\n", len(page) // 2) + 1]  # between two lines
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
    handler.close_connection = True


def _unavailable(handler: BaseHTTPRequestHandler, page: bytes, _let_go: threading.Event) -> None:
    _head(handler, 503, Content_Length=str(len(page)))
    handler.wfile.write(page)


def _compressed(handler: BaseHTTPRequestHandler, page: bytes, _let_go: threading.Event) -> None:
    _head(handler, Content_Length=str(len(page)), Content_Encoding="gzip")
    handler.wfile.write(page)


_FAULTS = ("hang", "no answer", "cut", "cut in chunks", "unavailable", "compressed", *_SPOILT)
_ANSWERS: dict[str, Callable[[BaseHTTPRequestHandler, bytes, threading.Event], None]] = {
    "hang": _hang,
    "no answer": _no_answer,
    "cut": _cut,
    "cut in chunks": _cut_in_chunks,
    "unavailable": _unavailable,
    "compressed": _compressed,
}


def _handler(engine: ChaosEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                engine.answer(self)
            except OSError:  # the agent was tired of waiting
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
