"""Three questions to the past, over HTTP, to Tidegate, Prometheus and VictoriaMetrics with the same samples in them.

A real controller on its embedded Postgres against Debian's Prometheus and VictoriaMetrics: one series over seven days
as it was sampled, 250 series over a day in means of five minutes, 250 series over thirty days in means of an hour.
The answers are compared before anything is timed; then all three are asked in turn. Exits 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray
from parts.agent import free_port
from parts.fleet_samples import START, STEP_SECONDS, HostSamples
from parts.peers import Peer, Prometheus, VictoriaMetrics, labelled, matrix, remote_write
from parts.stored_fleet import SPAN_SECONDS, StoredHost
from parts.table import Bounds, show

from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres

METRIC = "kv_cache_usage"
HOSTS = 5
"""With fifty series of the metric each."""
DAY = 86_400
SINCE = START - 28 * DAY
"""Long past whenever this runs: VictoriaMetrics drops what lies more than two days ahead."""
ROUNDS = int(SPAN_SECONDS / STEP_SECONDS)
BATCH = 120
"""Samples of each series in one message: no host may be an hour ahead of the next, or Prometheus refuses that one."""
ASKED = 9
CLOSE = 1e-6
"""Relative: rollups keep float32."""
WITHIN = {Prometheus.name: 0.0, VictoriaMetrics.name: 1e-11}
"""Of samples as they were written: VictoriaMetrics keeps twelve to thirteen decimal digits."""

Answer = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True, slots=True)
class Query:
    """A question to all three, over the last `seconds` of what was written."""

    name: str
    seconds: int
    step: int
    """0: every sample of one series."""


QUERIES = (
    Query("1 series, 7 d, every sample", 7 * DAY, 0),
    Query("250 series, 24 h, means of 5 min", DAY, 300),
    Query("250 series, 30 d, means of 1 h", 30 * DAY, 3600),
)


class Tidegate:
    """The real controller over what was written."""

    name = "Tidegate"

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self._port}", timeout=300.0, trust_env=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started, and stopped at the end."""
        config = self._folder / "controller.toml"
        config.write_text(f'[controller]\nstate_dir = "{self._folder}"\nlisten = "127.0.0.1:{self._port}"\n')
        command = [sys.executable, "-c", "from tidegate.cli.main import main; main()", "controller", "--config", config]
        with (self._folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while not self._ready():
                if process.poll() is not None:
                    raise SystemExit(f"the controller did not start: {(self._folder / 'log').read_text()[-500:]}")
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(60.0)

    def _ready(self) -> bool:
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def ask(self, query: Query, until: int) -> bytes:
        """The body of the answer."""
        words: dict[str, str] = {"metric": METRIC, "since": _iso(until - query.seconds), "until": _iso(until)}
        if query.step:
            words["step"] = f"{query.step}s"
        else:
            words |= dict(zip(("host", "engine", "rank"), _first_series(), strict=True))
        answer = self._client.get("/v1/query", params=words)
        if not answer.is_success:
            raise SystemExit(f"the controller refused: {answer.text[:300]}")
        return answer.content

    @staticmethod
    def read(body: bytes) -> Answer:
        """Each series by the name that the peers know it by."""
        found = json.loads(body)
        return {
            _name(line["labels"]["host"], line["labels"]["engine"], line["labels"]["rank"]): (
                np.array(found["at"] or line["at"]),
                np.array(line["values"], float),
            )
            for line in found["series"]
        }


def ask_peer(peer: Peer, query: Query, until: int) -> bytes:
    """The body of a peer's answer to the same question: each step ends a millisecond before the next begins."""
    selector = f"{METRIC}"
    if not query.step:
        found = f'{selector}{{series="{_name(*_first_series())}"}}[{query.seconds}s]'
        return peer.ask("/api/v1/query", query=found, time=f"{until - 0.001:.3f}", nocache="1")
    # Prometheus counts samples at both ends of a range (before version 3), VictoriaMetrics at the later one alone.
    span = f"{query.step * 1000 - 1}ms" if isinstance(peer, Prometheus) else f"{query.step}s"
    return peer.ask(
        "/api/v1/query_range",
        query=f"avg_over_time({selector}[{span}])",
        start=f"{until - query.seconds + query.step - 0.001:.3f}",
        end=f"{until - 0.001:.3f}",
        step=str(query.step),
        nocache="1",
    )


def _first_series() -> tuple[str, str, str]:
    return "gpu-0001", "vllm-0", "0"


def _name(host: str, engine: str, rank: str) -> str:
    return f"{host}/{engine}/{rank}"


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def fill(state: Path, peers: Sequence[Peer], days: int) -> None:
    """The same samples to all; in time order, as Prometheus wants them."""
    state.chmod(0o711)
    server = EmbeddedPostgres(state)
    server.start()
    database = open_database(server.dsn)
    migrate.upgrade(database)
    fleet = [HostSamples(number + 1, SINCE) for number in range(HOSTS)]
    places = [[place for place, key in enumerate(host.keys) if key.name == METRIC] for host in fleet]
    stored = [
        StoredHost(database, host.name, [host.keys[place] for place in mine], SINCE)
        for host, mine in zip(fleet, places, strict=True)
    ]
    labels = [
        [
            labelled({"__name__": METRIC, "series": _name(host.name, host.keys[p].owner, host.keys[p].rank)})
            for p in mine
        ]
        for host, mine in zip(fleet, places, strict=True)
    ]
    for span in range(int(days * DAY / SPAN_SECONDS)):
        parts = []
        for host, mine, ours in zip(fleet, places, stored, strict=True):
            samples = host.next(ROUNDS)
            ours.write(SINCE + span * SPAN_SECONDS, samples.moments, samples.values[:, mine])
            parts.append((np.round(samples.moments * 1000).astype(np.int64), samples.values[:, mine]))
        _tell(peers, labels, parts)
    database.close()
    server.stop()


def _tell(
    peers: Sequence[Peer],
    labels: Sequence[Sequence[bytes]],
    parts: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> None:
    """One span of every host to the peers."""
    for first in range(0, ROUNDS, BATCH):
        cut = slice(first, first + BATCH)
        for series, (times, values) in zip(labels, parts, strict=True):
            message = remote_write(series, np.broadcast_to(times[cut], (len(series), BATCH)), values[cut].T)
            for peer in peers:
                peer.write(message)


def timed(asks: Mapping[str, Callable[[], bytes]]) -> dict[str, float]:
    """Median milliseconds of each, asked in turn."""
    took: dict[str, list[float]] = {name: [] for name in asks}
    for _ in range(ASKED):
        for name, ask in asks.items():
            began = time.perf_counter()
            ask()
            took[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(found) for name, found in took.items()}


def difference(ours: Answer, theirs: Answer, query: Query, within: float) -> str:
    """Where the answers differ in their series, times or values, in words; empty when they do not.

    Samples have to be the same (`within`: but for so much of each), means as close as float32 can be.
    """
    if ours.keys() != theirs.keys():
        return f"series {sorted(ours.keys() ^ theirs.keys())[:3]}"
    for name, (at, values) in ours.items():
        ends, their = theirs[name][0] + (0.001 - query.step if query.step else 0.0), theirs[name][1]
        if len(at) != len(ends) or not np.allclose(at, ends, rtol=0, atol=5e-4):
            return f"{name}: {len(at)} and {len(ends)} times"
        off = np.abs(values - their) > (CLOSE if query.step else within) * np.abs(values)
        if off.any():
            place = int(np.flatnonzero(off)[0])
            return f"{name}: {off.sum()} values, such as {values[place]!r} and {their[place]!r} at {at[place]}"
    return ""


def compare(tidegate: Tidegate, peers: Sequence[Peer], days: int, bounds: Bounds) -> None:
    """Ask all three everything, and print the table."""
    until, rows = int(SINCE) + days * DAY, []
    for query in (one for one in QUERIES if one.seconds <= days * DAY):
        asks: dict[str, Callable[[], bytes]] = {tidegate.name: lambda q=query: tidegate.ask(q, until)}  # type: ignore[misc]
        asks |= {peer.name: lambda p=peer, q=query: ask_peer(p, q, until) for peer in peers}  # type: ignore[misc]
        ours = tidegate.read(asks[tidegate.name]())
        for peer in peers:
            found = difference(ours, matrix(asks[peer.name]()), query, WITHIN[peer.name])
            bounds.hold(f"{query.name}: {peer.name} answers the same {found}".rstrip(), kept=not found)
        took = timed(asks)
        ratios = [f"{took[peer.name] / took[tidegate.name]:.1f}" for peer in peers]
        rows.append([query.name, *(f"{took[name]:.1f}" for name in asks), *ratios])
        bounds.hold(f"{query.name}: not slower than Prometheus", kept=took["Tidegate"] <= took["Prometheus"])
        if query.seconds == 30 * DAY:
            bounds.hold(f"{query.name}: faster than both", kept=took["Tidegate"] < min(took[p.name] for p in peers))
    names = [tidegate.name, *(peer.name for peer in peers)]
    show(["query", *(f"{name}, ms" for name in names), *(f"{peer.name} / ours" for peer in peers)], rows)


def main() -> int:
    """Fill, compare, and say whether every bound was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    days = parser.parse_args().days
    kinds = (Prometheus, VictoriaMetrics)
    if not all(kind.installed() for kind in kinds):
        print("skipped: prometheus and victoria-metrics are wanted (Debian packages of these names)")
        return 0
    folder, bounds = Path(tempfile.mkdtemp(prefix="tg-")), Bounds()
    folder.chmod(0o711)
    try:
        with ExitStack() as stack:
            peers = [stack.enter_context(kind(folder / kind.name)) for kind in kinds]
            state = folder / "state"
            state.mkdir()
            began = time.perf_counter()
            fill(state, peers, days)
            for peer in peers:
                peer.settle()
            print(f"{days} days of {HOSTS * 50} series in all three after {time.perf_counter() - began:.0f} s")
            tidegate = Tidegate(state)
            stack.enter_context(tidegate.running())
            compare(tidegate, peers, days, bounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bounds.broken else 0


if __name__ == "__main__":
    sys.exit(main())
