"""Read the GPUs from another reader's JSON over HTTP (`observe/gpu_json.py`): other vendors, and the demo's GPUs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx

from tidegate.model.reading import GpuFault, GpuSurvey
from tidegate.observe.gpu_json import decode
from tidegate.runtime.clock import SystemClock

_BODY_LIMIT = 1024 * 1024
_SOURCE = "http"
_REAL = SystemClock()
"""Deadlines are real seconds, also where the agent's clock is played fast."""


class _Refused(Exception):  # noqa: N818 - named for what happened
    """The answer cannot be used."""

    def __init__(self, fault: GpuFault, why: str) -> None:
        super().__init__(why)
        self.fault, self.why = fault, why


class HttpGpuReader:
    """The `GpuReader` over HTTP. `timeout` bounds a whole read of a server that answers at all."""

    def __init__(self, url: str, timeout: timedelta) -> None:
        self._url = url
        self._seconds = timeout.total_seconds()
        # Each step may take half, so that connecting and waiting for an answer together stay within the whole.
        self._client = httpx.Client(
            timeout=httpx.Timeout(self._seconds / 2),
            follow_redirects=False,
            trust_env=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def read(self, now: datetime) -> GpuSurvey:
        """All GPUs, or why they cannot be read; never raises."""
        try:
            document = _json(self._fetch())
        except _Refused as refused:
            return self._down(refused.fault, refused.why, now)
        except httpx.TimeoutException:
            return self._down(GpuFault.HANGING, f"no answer within {self._seconds:g} s", now)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return self._down(GpuFault.UNREACHABLE, f"{error}", now)
        return decode(document, now, _SOURCE)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _fetch(self) -> bytes:
        deadline = _REAL.monotonic() + self._seconds
        body = bytearray()
        with self._client.stream("GET", self._url) as response:
            if response.status_code != 200:
                raise _Refused(GpuFault.UNREACHABLE, f"the answer is HTTP {response.status_code}")
            for part in response.iter_raw():
                body += part
                if len(body) > _BODY_LIMIT:
                    raise _Refused(GpuFault.MALFORMED, f"the answer is longer than {_BODY_LIMIT} bytes")
                if _REAL.monotonic() > deadline:
                    raise _Refused(GpuFault.HANGING, f"no whole answer within {self._seconds:g} s")
        return bytes(body)

    def _down(self, fault: GpuFault, why: str, now: datetime) -> GpuSurvey:
        said = f"{_shown(self._url)}: {why}"
        return GpuSurvey(up=False, why=said, at=now, source=_SOURCE, fault=fault)


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Refused(GpuFault.MALFORMED, "the answer is not JSON") from error


def _shown(url: str) -> str:
    """The address without user, password and query, which may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address of the GPU reader"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
