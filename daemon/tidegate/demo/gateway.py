"""The demo's gateway: takes the day's requests to the endpoints that the controller names, and keeps its own count.

It asks `GET /v1/endpoints` as any gateway that reads Prometheus' http_sd format can, and goes on with the last list
while the controller is away. Requests are handed over a moment ahead, each with its own time of arrival.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException
from threading import Event, Lock, Thread

from tidegate.demo.engine_model import Arrival
from tidegate.demo.ledger import Ledger, Reply
from tidegate.demo.pace import REAL_ROUTE_SECONDS
from tidegate.demo.traffic import Traffic
from tidegate.runtime.clock import ScaledClock

TIMEOUT_SECONDS = 3.0
"""Real seconds."""
LEAD_STEPS = 5.0
"""How many steps ahead of its arrival a request is handed over. On a busy machine this thread may wait for its turn for
several steps; engines that were given nothing meanwhile would look idle, and be closed in the middle of a peak."""
LIST_EVERY_STEPS = 2
MAX_BATCH = 2000
HISTORY = 4096


@dataclass(frozen=True, slots=True)
class Counts:
    """The gateway's books at one moment."""

    at: datetime
    arrived: int = 0
    finished: int = 0
    tokens: int = 0
    """Prompt and output tokens of the finished requests."""
    lost: int = 0
    moved: int = 0
    outstanding: int = 0
    waiting: int = 0
    """Requests for which there is no endpoint."""
    endpoints: int = 0
    list_failures: int = 0
    """How often the controller did not answer for its list."""


class Gateway:
    """A thread that routes until it is stopped; `counts` and `history` may be read at any time."""

    def __init__(self, clock: ScaledClock, traffic: Traffic, endpoints_url: Callable[[], str]) -> None:
        self._clock = clock
        self._traffic = traffic
        self._endpoints_url = endpoints_url
        self._ledger = Ledger()
        self._connections: dict[str, HTTPConnection] = {}
        self._list_failures = 0
        self._open = False
        self._closed_at: float | None = None
        self._stop = Event()
        self._lock = Lock()
        self._thread = Thread(target=self._run, name="gateway", daemon=True)
        self.history: deque[Counts] = deque(maxlen=HISTORY)

    def start(self) -> None:
        """Begin to route; nobody is let in before the first replica serves, however long the fleet takes to begin."""
        self._thread.start()

    def close_doors(self, at: datetime) -> None:
        """Take no request that arrives later; what is outstanding is still awaited."""
        self._closed_at = at.timestamp()

    def stop(self) -> None:
        """End the thread; what is outstanding stays counted as such."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * TIMEOUT_SECONDS)
        for address in list(self._connections):
            self._drop(address)

    def counts(self) -> Counts:
        """The totals now."""
        with self._lock:
            ledger = self._ledger
            return Counts(
                at=self._clock.now(),
                arrived=ledger.arrived,
                finished=ledger.finished,
                tokens=ledger.tokens,
                lost=len(ledger.losses),
                moved=ledger.moved,
                outstanding=ledger.outstanding,
                waiting=len(ledger.waiting),
                endpoints=sum(book.routable for book in ledger.books.values()),
                list_failures=self._list_failures,
            )

    def _run(self) -> None:
        step = timedelta(seconds=REAL_ROUTE_SECONDS * self._clock.speed)
        number = 0
        while not self._clock.wait(self._stop, step):
            if number % LIST_EVERY_STEPS == 0:
                self._read_list()
            number += 1
            with self._lock:
                horizon = (self._clock.now() + LEAD_STEPS * step).timestamp()
                self._let_in(min(horizon, self._closed_at or horizon))
                self._ledger.assign()
                due = [name for name, book in self._ledger.books.items() if book.load or book.refusals]
            for name in due:
                self._exchange(name)
            self.history.append(self.counts())

    def _let_in(self, horizon: float) -> None:
        arrivals = self._traffic.until(horizon)
        self._open = self._open or bool(self._ledger.books)
        if self._open:
            self._ledger.arrive(arrivals)
        else:
            deque(arrivals, maxlen=0)  # they find the doors closed

    def _read_list(self) -> None:
        address, path = _split(self._endpoints_url())
        try:
            body = self._request(address, "GET", path)
            groups = json.loads(body)
            found = [target for group in groups for target in group["targets"]]
        except (OSError, HTTPException, ValueError, TypeError, KeyError):
            self._drop(address)
            self._list_failures += 1
            return
        with self._lock:
            self._ledger.set_endpoints(found)
            gone = self._connections.keys() - self._ledger.books.keys() - {address}
        for name in gone:
            self._drop(name)

    def _exchange(self, name: str) -> None:
        book = self._ledger.books[name]
        sent = list(book.unsent.values())[:MAX_BATCH]
        message = {"collected": book.collected, "requests": [_row(arrival) for arrival in sent]}
        now = self._clock.now().timestamp()
        try:
            answer = json.loads(self._request(name, "POST", "/sim/arrivals", json.dumps(message).encode()))
        except ConnectionRefusedError:
            self._drop(name)
            with self._lock:
                self._ledger.refused(name, now)
        except (OSError, HTTPException, ValueError):
            self._drop(name)  # it may have taken them: the same batch goes to the same engine again
        else:
            with self._lock:
                self._ledger.answered(name, sent, Reply(**answer), now)

    def _request(self, address: str, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = HTTPConnection(address, timeout=TIMEOUT_SECONDS)
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise HTTPException(f"{address}{path} answered {response.status}")
        return content

    def _drop(self, address: str) -> None:
        if connection := self._connections.pop(address, None):
            connection.close()


def _row(arrival: Arrival) -> list[float]:
    return [
        arrival.id,
        arrival.at,
        arrival.prompt_tokens,
        arrival.output_tokens,
        arrival.prefix,
        arrival.prefix_tokens,
    ]


def _split(url: str) -> tuple[str, str]:
    address, _, path = url.removeprefix("http://").partition("/")
    return address, f"/{path}"
