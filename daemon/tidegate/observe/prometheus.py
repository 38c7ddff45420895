"""Ask a Prometheus, or what speaks its HTTP API (Thanos, Mimir, VictoriaMetrics), through prometheus-api-client.

The library brings the calls; what it leaves open is set here: no retries (the next poll is one), no redirects, no proxy
or password from the environment, one deadline and one size for an answer, and a status that names the remedy. A partial
answer is no answer: a store that is away must not look like a fleet that shrank.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from tidegate.model.scrape import Found, Labels, PrometheusPlace, SampleSeries
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.outbound import redact

_WHOLE = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos' and VictoriaMetrics' words for "all or nothing"; others pass them over."""
_CHUNK = 256 * 1024
_SAID = 300
"""So much of an error's text is repeated."""
_CONNECT_SECONDS = 5.0
_REMEDIES = {
    400: "the query is refused: another version of the API? see the server's log",
    401: "it wants to know who asks: set token_file or header_files in [prometheus]",
    403: "it knows who asks and refuses: give this user (or tenant) the right to query",
    404: "there is no query API: `url` must be the address before /api/v1 (Mimir: .../prometheus, VictoriaMetrics "
    "cluster: .../select/0/prometheus)",
    422: "it cannot carry the query out: raise its limits (samples per query, series per query)",
}


class Prometheus:
    """Queries one server; safe to use from many threads. Every error is Transient or Permanent, with the remedy."""

    def __init__(self, place: Callable[[], PrometheusPlace]) -> None:
        """`place` is read at every query: a reload counts at once."""
        self._place = place
        self._made: tuple[PrometheusPlace, PrometheusConnect] | None = None

    def raw(self, selector: str, at: datetime, span: timedelta) -> Found:
        """The samples of the last `span` before `at`, as they were scraped.

        Raises Transient when a part of the answer is missing.
        """
        return self._matrix(f"{selector}[{_duration(span)}]", at, "matrix")

    def instant(self, expression: str, at: datetime) -> Found:
        """The value of an expression at one moment; raises Transient when a part of the answer is missing."""
        return self._matrix(expression, at, "vector")

    def steps(self, expression: str, first: datetime, last: datetime, step: timedelta) -> Found:
        """The values of an expression at whole seconds from `first` to `last`; doubts are in the answer's warnings."""
        width = f"{step.total_seconds():g}"
        answered = self._ask(lambda api: api.custom_query_range(expression, first, last, width, params=dict(_WHOLE)))
        return Found(_series(answered, "matrix"), answered.warnings)

    def labels(self, selector: str, since: datetime, until: datetime) -> Sequence[Labels]:
        """The labels of the series that have samples between the two moments."""
        answered = self._ask(lambda api: api.get_series(since, until, params={"match[]": selector, **_WHOLE}))
        if not isinstance(answered.data, list) or not all(isinstance(labels, dict) for labels in answered.data):
            raise Transient("Prometheus' answer holds no list of series")
        return answered.data

    def _matrix(self, expression: str, at: datetime, kind: str) -> Found:
        parameters = {"time": f"{at.timestamp():.3f}", **_WHOLE}
        answered = self._ask(lambda api: api.custom_query(expression, params=parameters))
        if answered.warnings:
            raise Transient(f"Prometheus answers in part only ({answered.warnings[0]}): nothing of it is taken")
        return Found(_series(answered, kind))

    def _ask(self, call: Callable[[PrometheusConnect], Any]) -> _Answered:
        api = self._api()
        try:
            given = call(api)
        except requests.RequestException as error:
            raise Transient(f"{redact(api.url)}: {_words(error)}") from error
        except PrometheusApiClientException as error:
            raise Transient(f"{redact(api.url)}: {str(error)[:_SAID]}") from error
        answered = given["result"] if isinstance(given, dict) else given
        if not isinstance(answered, _Answered):
            raise Transient(f"{redact(api.url)}: the answer is not what was asked for")
        return answered

    def _api(self) -> PrometheusConnect:
        place, made = self._place(), self._made
        if made is None or made[0] != place:
            # retry=0 stands for the library's own three; an address with a slash at its end would give //api.
            made = (
                place,
                PrometheusConnect(place.url.rstrip("/"), dict(place.headers), retry=0, session=_Session(place)),
            )
            self._made = made
        return made[1]


@dataclass(frozen=True, slots=True)
class _Answered:
    """What an answer holds, and what the server says of it."""

    data: Any
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Response:
    """What the library reads of a response: it takes `json()["data"]["result"]`, and drops the warnings beside it."""

    answered: _Answered
    status_code: int = 200

    def json(self) -> dict[str, Any]:
        """The answer where the library looks for it."""
        return {"data": {"result": self.answered}}


class _Session(requests.Session):
    """The connections, with our own rules for every request."""

    def __init__(self, place: PrometheusPlace) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = place.ca_file or True
        self._place = place

    def request(self, method: str, url: str, **options: Any) -> Any:  # type: ignore[override] # the library reads only this
        """One exchange within the deadline and the size; answers a `_Response` of status 200."""
        seconds = self._place.timeout.total_seconds()
        until = time.monotonic() + seconds  # noqa: TID251 - real time: the network knows no other
        options |= {
            "timeout": (min(_CONNECT_SECONDS, seconds), seconds),
            "allow_redirects": False,
            "stream": True,
            "verify": self.verify,
        }
        with super().request(method, url, **options) as response:
            body = _read(response, until, self._place)
        return _Response(_answered(response, body, redact(url)))


def _read(response: requests.Response, until: float, place: PrometheusPlace) -> bytes:
    """The body, unpacked: one read of the connection at a time, so that a trickle ends at the deadline too."""
    parts, size = [], 0
    while part := _part(response):
        parts.append(part)
        size += len(part)
        if size > place.most_bytes:
            raise Permanent(
                f"{redact(place.url)}: the answer is larger than {place.most_bytes >> 20} MiB; narrow it by "
                "[prometheus.matchers], or raise most_mib"
            )
        if time.monotonic() > until:  # noqa: TID251 - as above
            raise Transient(f"{redact(place.url)}: the answer took longer than {place.timeout.total_seconds():g} s")
    return b"".join(parts)


def _part(response: requests.Response) -> bytes:
    try:
        part: bytes = response.raw.read1(_CHUNK, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise requests.ConnectionError(error) from error
    return part


def _answered(response: requests.Response, body: bytes, where: str) -> _Answered:
    status, said = response.status_code, _object(body)
    if 300 <= status < 400:
        raise Permanent(f"{where}: it sends us elsewhere ({status}), which is not followed; correct `url`")
    if status != 200 or said is None or said.get("status") != "success":
        error = str((said or {}).get("error") or "")[:_SAID]
        raise _refusal(where, status, error, is_json=said is not None)
    warnings = said.get("warnings") or []
    partial = ["isPartial"] if said.get("isPartial") is True else []  # VictoriaMetrics' cluster
    return _Answered(_inner(said), tuple(str(each)[:_SAID] for each in (*warnings, *partial)))


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except ValueError:  # no JSON, or no text at all
        return None
    return found if isinstance(found, dict) else None


def _inner(said: dict[str, Any]) -> Any:
    data = said.get("data")
    return data if not isinstance(data, dict) else (data.get("resultType"), data.get("result"))


def _refusal(where: str, status: int, error: str, *, is_json: bool) -> Transient | Permanent:
    if status in _REMEDIES:
        return Permanent(f"{where}: {status} {error}; {_REMEDIES[status]}")
    if status == 200 and not is_json:
        return Permanent(f"{where}: the answer is a page and not JSON: is a login or another program in front of it?")
    return Transient(f"{where}: {status} {error or 'without a word why'}")


def _words(error: requests.RequestException) -> str:
    """What went wrong, without the address and the query that the library repeats."""
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is not taken: {str(error.args[0] if error.args else error)[-_SAID:]}; set ca_file"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return "the answer is packed in a way that is not understood"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached, or hung up"
    return type(error).__name__


def _series(answered: _Answered, kind: str) -> Sequence[SampleSeries]:
    """The series of a matrix or a vector; raises Transient when it is not of that kind."""
    try:
        found, rows = answered.data
        if found != kind:
            raise Transient(f"Prometheus answered a {found}, not a {kind}")
        return [_one(row, kind) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise Transient(f"Prometheus' answer is no {kind}: {type(error).__name__}: {error}") from error


def _one(row: dict[str, Any], kind: str) -> SampleSeries:
    points = row["values"] if kind == "matrix" else [row["value"]]
    return SampleSeries(row["metric"], [(float(at), float(value)) for at, value in points])


def _duration(span: timedelta) -> str:
    return f"{round(span.total_seconds() * 1000)}ms"
