"""Debian's Prometheus and VictoriaMetrics as peers: started on loopback, written to, asked, measured.

Both take Prometheus' remote write. Its messages are laid out by numpy, so that what the client costs says nothing of
the servers.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from parts.agent import free_port
from parts.processes import cpu_seconds

Labels = Mapping[str, str]
_SAMPLE = np.dtype([("tag", "u1"), ("size", "u1"), ("value", "u1"), ("float", "<f8"), ("time", "u1"), ("ms", "u1", 6)])
_START_SECONDS = 60.0


def labelled(labels: Labels) -> bytes:
    """The labels of a series as every message of it begins."""
    return b"".join(_label(name, labels[name]) for name in sorted(labels))


def remote_write(series: Sequence[bytes], times_ms: NDArray[np.int64], values: NDArray[np.float64]) -> bytes:
    """A WriteRequest (prometheus/prompb), snappy's block format: `values` has a row a series, `times_ms` too.

    `series`: what `labelled` made of each.
    """
    cells = np.zeros(values.shape, _SAMPLE)
    cells["tag"], cells["size"] = 0x12, 16  # TimeSeries.samples = 2, of 16 bytes
    cells["value"], cells["float"] = 0x09, values  # Sample.value = 1, a double
    cells["time"] = 0x10  # Sample.timestamp = 2, a varint: six groups of seven bits until the year 2109
    shifts = np.arange(6) * 7
    groups = (np.asarray(times_ms)[..., None] >> shifts) & 0x7F
    groups[..., :5] |= 0x80
    cells["ms"] = groups
    parts = []
    for named, row in zip(series, cells, strict=True):
        body = named + row.tobytes()
        parts.append(b"\x0a" + _varint(len(body)) + body)
    compressed: bytes = pa.compress(b"".join(parts), codec="snappy", asbytes=True)
    return compressed


def _label(name: str, value: str) -> bytes:
    pair = b"\x0a" + _varint(len(name)) + name.encode() + b"\x12" + _varint(len(value)) + value.encode()
    return b"\x0a" + _varint(len(pair)) + pair


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Peer:
    """One of them, started by `with`."""

    name = ""
    program = ""
    write_path = ""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self._port = folder, free_port()
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=300.0, trust_env=False)

    @classmethod
    def installed(cls) -> bool:
        """Whether its program is there."""
        return shutil.which(cls.program) is not None

    def options(self, address: str) -> list[str]:
        """Its command line."""
        raise NotImplementedError

    def __enter__(self) -> Peer:
        with (self.folder / "log").open("w") as log:
            command = [self.program, *self.options(f"127.0.0.1:{self._port}")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise SystemExit(f"{self.name} did not start: see {self.folder / 'log'}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._process.terminate()
        self._process.wait(60.0)

    def _answers(self) -> bool:
        try:
            return self._client.get("/metrics").status_code == 200
        except httpx.HTTPError:
            return False

    def write(self, message: bytes) -> None:
        """Deliver what `remote_write` made."""
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        answer = self._client.post(self.write_path, content=message, headers=headers)
        if not answer.is_success:
            raise SystemExit(f"{self.name} refused samples: {answer.status_code} {answer.text[:300]}")

    def ask(self, path: str, **parameters: str) -> bytes:
        """The body of an answer, not yet read."""
        answer = self._client.get(path, params=parameters)
        if not answer.is_success:
            raise SystemExit(f"{self.name} refused a query: {answer.status_code} {answer.text[:300]}")
        return answer.content

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let it do nothing meanwhile, not even what it does by itself."""
        self._process.send_signal(signal.SIGSTOP)
        yield
        self._process.send_signal(signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """What its process used so far."""
        return cpu_seconds([self._process.pid])

    def disk_bytes(self) -> int:
        """What its folder takes, in blocks of the file system."""
        return sum(found.stat().st_blocks * 512 for found in self.folder.rglob("*") if found.is_file())

    def settle(self) -> None:
        """Have written samples take their final form on disk, as far as there is a way to ask for it."""


class Prometheus(Peer):
    """Debian's prometheus."""

    name, program, write_path = "Prometheus", "prometheus", "/api/v1/write"

    def options(self, address: str) -> list[str]:
        """Scrapes nothing; takes remote write and keeps all."""
        (self.folder / "prometheus.yml").write_text("scrape_configs: []\n")
        return [
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
            "--web.enable-remote-write-receiver",
            "--query.timeout=5m",
        ]


class VictoriaMetrics(Peer):
    """Debian's victoria-metrics."""

    name, program, write_path = "VictoriaMetrics", "victoria-metrics", "/api/v1/write"

    def options(self, address: str) -> list[str]:
        """Keeps all."""
        return [
            f"-storageDataPath={self.folder / 'data'}",
            "-retentionPeriod=10y",
            f"-httpListenAddr={address}",
            "-search.maxQueryDuration=5m",
        ]

    def settle(self) -> None:
        """Flush what is in memory and merge parts for good."""
        self.ask("/internal/force_flush")
        self.ask("/internal/force_merge")


def matrix(body: bytes) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Times (seconds) and values of each series of a range answer, by the value of its label `series`."""
    found: Any = json.loads(body)["data"]["result"]
    return {
        str(one["metric"]["series"]): (
            np.array([float(at) for at, _ in one["values"]]),
            np.array([float(value) for _, value in one["values"]]),
        )
        for one in found
    }
