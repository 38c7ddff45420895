"""Scrape one engine's metrics page over HTTP: every outcome is a reading, with a named state and words for a person."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urljoin, urlsplit

import httpcore

import tidegate
from tidegate.model.reading import EngineName, EngineReading, EngineState
from tidegate.model.target import EngineTarget
from tidegate.observe.body import Origin, body_parser, excerpt, failed, read_body
from tidegate.observe.connections import Connections
from tidegate.observe.llamacpp_models import model_asked, models_url, not_loaded
from tidegate.observe.textformat import LIMITS, LayoutParser
from tidegate.runtime.clock import Clock, SystemClock
from tidegate.runtime.deadline import Deadline, DeadlineBackend

__all__ = ["EngineScraper", "read_body"]

_REAL = SystemClock()
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_VERIFY = re.compile(r"^.*certificate verify failed: | \(_ssl\.c:\d+\)\.?$")
_MOST_REDIRECTS = 3
_MOST_PARSERS = 64
_HEADERS = {
    # SGLang answers an OpenMetrics request with sample names that its own TYPE lines do not know.
    "Accept": "text/plain;version=0.0.4",
    # llama.cpp stopped generating when its page was compressed each second (llama.cpp#29104).
    "Accept-Encoding": "identity",
    "User-Agent": f"tidegate/{tidegate.__version__}",
}


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    """Whole, or already over the limit."""


class _Failure(Exception):  # noqa: N818 - named for what it tells
    """No answer: the state, and why."""

    def __init__(self, state: EngineState, problem: str) -> None:
        super().__init__(problem)
        self.state, self.problem = state, problem


class EngineScraper:
    """The `EngineReader` over HTTP; several threads may use it at once.

    `timeout` is the whole of a scrape in real seconds, `keep_alive` how long an idle connection is kept: longer than
    the interval, or each scrape connects anew.
    """

    def __init__(self, timeout: timedelta, clock: Clock, keep_alive: timedelta = timedelta(seconds=120)) -> None:
        self._seconds = timeout.total_seconds()
        self._clock = clock
        self._deadline = Deadline()
        self._parsers = _Parsers()
        self._connections = Connections(DeadlineBackend(self._deadline), keep_alive.total_seconds())

    def read(self, target: EngineTarget, now: datetime) -> EngineReading:
        """Scrape the target; the reading's time is that of the answer's arrival. Never raises."""
        began, began_real = self._clock.monotonic(), _REAL.monotonic()
        seconds = self._seconds if target.timeout is None else target.timeout.total_seconds()
        outcome: _Answer | _Failure
        try:
            _check_signing(target)
            with self._deadline.within(seconds):
                outcome = self._fetch(target)
        except _Failure as failure:
            outcome = failure
        except _ERRORS as error:
            outcome = _explain(error, target.url, seconds)
        at = now + timedelta(seconds=self._clock.monotonic() - began)
        with self._parsers.borrowed(target.name) as parser:
            reading = _reading(target, outcome, at, parser)
        return replace(reading, duration_seconds=_REAL.monotonic() - began_real)

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()

    def _fetch(self, target: EngineTarget) -> _Answer:
        """Follow redirects, but to the same server only: the token is for nobody else."""
        url = target.url
        _check_address(url)
        if (model := model_asked(url)) is not None:
            self._refuse_unloaded(target, model)
        for _ in range(_MOST_REDIRECTS + 1):
            _check_address(url)
            answer = self._get(url, target)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            there = urljoin(url, location)
            if _server(there) != _server(url):
                problem = f"redirects to another server ({_shown(there)}): give the engine's own address"
                raise _Failure(EngineState.MALFORMED, problem)
            url = there
        raise _Failure(EngineState.MALFORMED, f"more than {_MOST_REDIRECTS} redirects from {_shown(target.url)}")

    def _refuse_unloaded(self, target: EngineTarget, model: str) -> None:
        listed = self._get(models_url(target.url), target)
        why = not_loaded(listed.body, model) if listed.status == 200 else None
        if why is not None:
            raise _Failure(EngineState.DISABLED, why)

    def _get(self, url: str, target: EngineTarget) -> _Answer:
        pool = self._connections.pool(target)
        signed = {"Authorization": f"Bearer {target.token}"} if target.token else {}
        headers = _HEADERS | signed | dict(target.headers)
        try:
            return _once(pool, url, headers)
        except (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError):
            # An idle connection that the server closed at this moment. A scrape is a GET: once more does no harm.
            return _once(pool, url, headers)


def _once(pool: httpcore.ConnectionPool, url: str, headers: Mapping[str, str]) -> _Answer:
    body = bytearray()
    with pool.stream("GET", url, headers=list(headers.items())) as response:
        answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        try:
            for part in response.iter_stream():
                body += part
                if len(body) > LIMITS.body_bytes:
                    break
        except (httpcore.ReadError, httpcore.RemoteProtocolError) as error:
            problem = f"the connection ended after {len(body)} bytes of the body: nothing of it is used"
            raise _Failure(EngineState.TRUNCATED, problem) from error
    return _Answer(response.status, answered, bytes(body))


class _Parsers:
    """A parser an engine, which knows its last page. Those unused for longest go when there are many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[EngineName, LayoutParser] = {}

    @contextmanager
    def borrowed(self, name: EngineName) -> Iterator[LayoutParser]:
        """The engine's parser, for one user at a time; a second one gets a fresh one."""
        with self._lock:
            parser = self._free.pop(name, None) or body_parser()
        yield parser
        with self._lock:
            self._free[name] = parser
            if len(self._free) > _MOST_PARSERS:
                del self._free[next(iter(self._free))]


_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    OSError,
    ValueError,  # a redirect to what is no address
)
_REDIRECTS = (301, 302, 303, 307, 308)
_STATUSES = {
    401: (EngineState.UNAUTHORIZED, "it wants a token: give one in the engine's entry of the configuration"),
    403: (EngineState.UNAUTHORIZED, "it refuses the token: correct it in the engine's entry of the configuration"),
    404: (EngineState.DISABLED, "no metrics at this path: correct it, or start SGLang with --enable-metrics"),
    501: (EngineState.DISABLED, "metrics are off: start llama.cpp with --metrics"),
    503: (EngineState.STARTING, "loading its model, or its core is down"),
}


def _reading(target: EngineTarget, outcome: _Answer | _Failure, at: datetime, parser: LayoutParser) -> EngineReading:
    name = target.name
    if isinstance(outcome, _Failure):
        return failed(name, at, outcome.state, outcome.problem)
    if outcome.status in _STATUSES:
        state, problem = _STATUSES[outcome.status]
        return failed(name, at, state, f"HTTP {outcome.status}: {problem}")
    if outcome.status == 400 and outcome.body.lstrip().startswith(b"{"):  # llama.cpp's words for it are known
        reading = read_body(name, outcome.body, at, "application/json")
        return replace(reading, problems=tuple(f"HTTP 400: {problem}" for problem in reading.problems))
    if outcome.status not in (200, 204):
        problem = f"HTTP {outcome.status} instead of metrics: {excerpt(outcome.body) or 'no words with it'}"
        return failed(name, at, EngineState.MALFORMED, problem)
    encoding = outcome.headers.get("content-encoding", "identity")
    if encoding != "identity":
        return failed(name, at, EngineState.MALFORMED, f"the body is compressed ({encoding!r}) though that is refused")
    origin = Origin(urlsplit(target.url).path, target.kind)
    return read_body(name, outcome.body, at, outcome.headers.get("content-type"), parser, origin)


def _explain(error: Exception, url: str, seconds: float) -> _Failure:
    """What an error of the network means for the engine."""
    shown = _shown(url)
    match error:
        case httpcore.ConnectTimeout():
            return _Failure(EngineState.UNREACHABLE, f"no connection to {shown} within {seconds:g} s: is the host up?")
        case httpcore.TimeoutException():
            problem = f"{shown} takes connections but gives no whole answer within {seconds:g} s"
            return _Failure(EngineState.HANGING, problem)
        case httpcore.LocalProtocolError():  # its text may hold the token
            return _Failure(EngineState.UNREACHABLE, f"no request can be made to {shown}: check its address and token")
        case httpcore.RemoteProtocolError() if "disconnected" in str(error):
            return _Failure(EngineState.UNREACHABLE, f"{shown} hangs up without an answer: is it going down?")
        case httpcore.ProtocolError():
            return _Failure(EngineState.MALFORMED, f"{shown} does not speak HTTP: is it the right port?")
    why = _ERRNO.sub("", str(error)) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in why:
        why = f"its certificate is not trusted: name its authorities in the engine's ca_file ({_VERIFY.sub('', why)})"
    if "refused" in why:
        why = "connection refused: nothing listens there"
    return _Failure(EngineState.UNREACHABLE, f"{shown}: {why}")


def _check_address(url: str) -> None:
    """Refuse what is no address before the network sees it."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable():
        raise _Failure(EngineState.UNREACHABLE, "the address is not one of http or https: correct it")


def _check_signing(target: EngineTarget) -> None:
    """Refuse what cannot be sent before a client library quotes it in an error."""
    for what, text in (("token", target.token), *((f"header {name}", value) for name, value in target.headers)):
        if not text.isascii() or not text.isprintable():
            raise _Failure(EngineState.UNAUTHORIZED, f"the {what} has characters that cannot be sent: correct its file")


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
