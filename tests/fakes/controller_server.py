"""A controller on loopback that only remembers: the wire's two requests, with faults when the test wants them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from fakes.agent_parts import FakeLink

from tidegate.wire import Batch, Desired, HostState


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that is killed in the middle of an answer is part of the play."""


class ControllerServer:
    """Takes reports from whoever bears the token; hands out `want` at once to a long poll."""

    def __init__(self, token: str = "tgh_good", port: int = 0) -> None:
        self.token = token
        self.memory = FakeLink()
        self.fault: tuple[int, bytes] | None = None
        self.host_state: HostState | None = None
        self.polls: list[dict[str, list[str]]] = []
        self.requests = 0
        self._desired: Desired | None = None
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", port), self._handler())
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def want(self, desired: Desired) -> None:
        with self._changed:
            self._desired = desired
            self._changed.notify_all()

    def __enter__(self) -> ControllerServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, body: bytes) -> tuple[int, bytes]:
        batch = Batch.model_validate_json(body)
        self.host_state = batch.state or self.host_state
        return 200, self.memory.report(batch).model_dump_json().encode()

    def _hand_out(self, query: dict[str, list[str]]) -> tuple[int, bytes]:
        self.polls.append(query)
        after = (int(query["after_epoch"][0]), int(query["after"][0]))
        with self._changed:
            self._changed.wait_for(lambda: self._newer(after) is not None, min(2.0, float(query["wait"][0])))
            found = self._newer(after)
        return (204, b"") if found is None else (200, found.model_dump_json().encode())

    def _newer(self, after: tuple[int, int]) -> Desired | None:
        found = self._desired
        return found if found is not None and (found.epoch, found.revision) > after else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        controller = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(lambda: controller._hand_out(parse_qs(urlsplit(self.path).query)))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(lambda: controller._take(body))

            def _answer(self, work) -> None:  # type: ignore[no-untyped-def]
                controller.requests += 1
                if controller.fault is not None:
                    status, body = controller.fault
                elif self.headers.get("Authorization") != f"Bearer {controller.token}":
                    problem = {"error": "nobody's token", "remedy": "enroll", "places": []}
                    status, body = 401, json.dumps(problem).encode()
                else:
                    status, body = work()
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
