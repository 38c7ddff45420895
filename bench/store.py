"""Ingest and disk: our store, Prometheus and VictoriaMetrics on the same samples of one synthetic fleet, in one run.

The first two hours come as a fleet reports them: one round of a thousand samples of each host at a time. Ours: from the
body of the request (JSON, base64) to chunks and both rollups, this process and Postgres together, a transaction for 64
reports, HTTP left out. The peers: remote write of the same samples, their own process alone, HTTP included, the client
left out. In these hours every series is new to all of them, and they are compared by them; the two hours that follow
are as any later ones, and our own bound is held by them: the peers, whose figure changes little, get them in larger
messages, and so do all some hours more, for what lies on disk. Exits 1 when a bound is broken.

Debian's packages `prometheus` and `victoria-metrics` are needed (`--install` fetches them); where one is absent it is
left out. Give it a machine of its own: what else runs makes every figure worse. Some four minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from parts.fleet_samples import SERIES, START, STEP_SECONDS, HostSamples, Samples
from parts.peers import Peer, Prometheus, VictoriaMetrics, labelled, remote_write
from parts.store_ingest import OurStore
from parts.table import Bounds, show

from tidegate.model.series import SeriesKey
from tidegate.runtime.collector import spare_the_old

WINDOW_ROUNDS = 480
"""Two hours."""
PIECE = 40
"""Rounds that are held in memory as messages."""
AT_ONCE = 120
"""Rounds in a message of the second part."""
PACKAGES = ("prometheus", "victoria-metrics")
LEAST_RATE = 3.5e6
OURS = "Tidegate"


@dataclass(slots=True)
class Spent:
    """CPU seconds by what they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str, clock: Callable[[], float]) -> Iterator[None]:
        """Add what the block costs."""
        began = clock()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + clock() - began


Spending = Mapping[str, Spent]


def labels(host: HostSamples) -> list[bytes]:
    """A host's series as the peers know them."""
    return [labelled(_labels(host.name, key)) for key in host.keys]


def _labels(host: str, key: SeriesKey) -> Mapping[str, str]:
    named = {"owner": key.owner, "rank": key.rank, "le": key.le}
    return {"__name__": f"tidegate_{key.name}", "host": host} | {name: text for name, text in named.items() if text}


def report(
    ours: OurStore, peers: Sequence[Peer], fleet: Sequence[HostSamples], parts: Sequence[Samples], spent: Spending
) -> None:
    """Two hours round by round, each piece of them to ours and to those that `spent` names; then what becomes of them.

    The controller's jobs run each minute; of compaction nothing is due before the end but that series are registered.
    """
    told = [peer for peer in peers if peer.name in spent]
    named = [labels(host) for host in fleet] if told else []
    for first in range(0, WINDOW_ROUNDS, PIECE):
        piece = [part.cut(first, first + PIECE) for part in parts]
        bodies = ours.bodies(fleet, piece)
        with alone(peers), spent[OURS].on("reports", ours.cpu_seconds):
            ours.take(bodies)
        with alone(peers), spent[OURS].on("compaction", ours.cpu_seconds):
            ours.compact(float(piece[0].moments[-1]))
        with ExitStack() as stack:
            for peer in told:
                stack.enter_context(spent[peer.name].on("remote write", peer.cpu_seconds))
            tell(told, named, piece, 1)
    now = float(parts[0].moments[-1]) + 420.0
    with alone(peers), spent[OURS].on("usage", ours.cpu_seconds):
        ours.roll_up(now)
    with alone(peers), spent[OURS].on("compaction", ours.cpu_seconds):
        ours.compact(now)


@contextmanager
def alone(peers: Sequence[Peer]) -> Iterator[None]:
    """The peers stand still, so that what they do by themselves is not in the way; ours does nothing by itself."""
    with ExitStack() as stack:
        for peer in peers:
            stack.enter_context(peer.still())
        yield


def tell(peers: Sequence[Peer], named: Sequence[Sequence[bytes]], parts: Sequence[Samples], at_once: int) -> None:
    """The same messages to all of them side by side, one for each host and so many rounds."""
    if not peers:
        return
    sent: list[Future[None]] = []
    with ThreadPoolExecutor(len(peers)) as senders:
        for cut in range(0, len(parts[0].moments), at_once):
            messages = [_message(mine, part.cut(cut, cut + at_once)) for mine, part in zip(named, parts, strict=True)]
            _settled(sent)  # while these were made
            sent = [senders.submit(_send, peer, messages) for peer in peers]
        _settled(sent)


def _message(series: Sequence[bytes], part: Samples) -> bytes:
    times = np.round(part.moments * 1_000).astype(np.int64)
    values = part.values.T
    return remote_write(series, np.broadcast_to(times, values.shape), values)


def _settled(sent: Sequence[Future[None]]) -> None:
    for one in sent:
        one.result()


def _send(peer: Peer, messages: Sequence[bytes]) -> None:
    for message in messages:
        peer.write(message)


def blocks(prometheus: Peer) -> tuple[int, int]:
    """Bytes and samples of Prometheus' finished blocks: its head is no measure."""
    found = [place.parent for place in prometheus.folder.glob("data/*/meta.json")]
    size = sum(file.stat().st_blocks * 512 for block in found for file in block.rglob("*") if file.is_file())
    told = [json.loads((block / "meta.json").read_text())["stats"]["numSamples"] for block in found]
    return size, sum(told)


def layers(sizes: Mapping[str, int]) -> dict[str, float]:
    """Bytes of our layers, hot or cold as they stand."""

    def of(*names: str) -> float:
        return float(sum(sizes.get(f"{name}_{layer}", 0) for name in names for layer in ("hot", "cold")))

    return {
        "samples": of("chunk", "chunk_clock"),
        "rollups": of("rollup_5m", "rollup_1h"),
        "dictionary": float(sizes["series"] + sizes["series_block"]),
    }


def main() -> int:
    options = _options()
    spare_the_old()  # as the controller does
    fleet = [HostSamples(number) for number in range(options.hosts)]
    rounds = int(options.hours * 3_600 / STEP_SECONDS)
    with tempfile.TemporaryDirectory(prefix="tg-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)
        ours = stack.enter_context(OurStore(folder))
        peers = [
            stack.enter_context(kind(folder / kind.program))
            for kind in (VictoriaMetrics, Prometheus)
            if kind.installed()
        ]
        fresh: Spending = {name: Spent() for name in (OURS, *(peer.name for peer in peers))}
        report(ours, peers, fleet, [host.next(WINDOW_ROUNDS) for host in fleet], fresh)
        later: Spending = {OURS: Spent()}
        parts = [host.next(WINDOW_ROUNDS) for host in fleet]
        report(ours, peers, fleet, parts, later)
        tell(peers, [labels(host) for host in fleet], parts, AT_ONCE)
        reported = 2 * WINDOW_ROUNDS
        hot = {name: size / (reported * SERIES * len(fleet)) for name, size in layers(ours.sizes()).items()}
        fill(ours, peers, fleet, max(rounds - reported, 0))
        total = max(rounds, reported) * SERIES * len(fleet)
        cold = {name: size / total for name, size in layers(_without_hot(ours.sizes())).items()}
        print(f"{len(fleet)} hosts of {SERIES} series every {STEP_SECONDS:.0f} s, all of them to each of: ", end="")
        print(", ".join(fresh))
        samples = WINDOW_ROUNDS * SERIES * len(fleet)
        rates = _tell_rates({"new series": fresh, "two hours later": later}, samples)
        _tell_disk(hot, cold, peers, total)
    return _judge(rates, hot, cold)


def fill(ours: OurStore, peers: Sequence[Peer], fleet: Sequence[HostSamples], rounds: int) -> None:
    """The second part: so many rounds in larger messages, and time for all stores to put them in order."""
    named = [labels(host) for host in fleet]
    for _ in range(0, rounds, WINDOW_ROUNDS):
        parts = [host.next(WINDOW_ROUNDS) for host in fleet]
        ours.take(ours.bodies(fleet, parts, AT_ONCE))
        tell(peers, named, parts, AT_ONCE)
    ours.compact(START + 7 * 86_400)
    for peer in peers:
        peer.settle()


def _without_hot(sizes: Mapping[str, int]) -> dict[str, int]:
    """Hot parts that have been emptied are dropped whole by the next retention."""
    return {name: size for name, size in sizes.items() if not name.endswith("_hot")}


def _tell_rates(spans: Mapping[str, Spending], samples: int) -> list[dict[str, float]]:
    """Show what each span of so many samples took; answers the rates of each."""
    rows, found = [], []
    for span, spent in spans.items():
        rates = {}
        for name, one in spent.items():
            whole = sum(seconds for what, seconds in one.seconds.items() if what != "usage")
            rates[name] = samples / whole
            for what, seconds in (*one.seconds.items(), ("all but usage", whole)):
                rows.append((name, span, what, f"{seconds:.1f}", f"{samples / seconds / 1e6:.2f}"))
        found.append(rates)
    show(("", "", "", "CPU s", "M samples/s per core"), rows)
    return found


def _tell_disk(hot: Mapping[str, float], cold: Mapping[str, float], peers: Sequence[Peer], total: int) -> None:
    rows = [
        (OURS, f"{name}, {layer}", f"{size:.3f}")
        for layer, of in (("hot", hot), ("cold", cold))
        for name, size in of.items()
    ]
    for peer in peers:
        if isinstance(peer, Prometheus):
            size, samples = blocks(peer)
            rows += [(peer.name, "blocks", f"{size / samples:.3f}")] if samples else []
        else:
            rows.append((peer.name, "merged", f"{peer.disk_bytes() / total:.3f}"))
    show(("", "", "bytes a sample"), rows)


def _judge(rates: Sequence[Mapping[str, float]], hot: Mapping[str, float], cold: Mapping[str, float]) -> int:
    fresh, later = rates
    bounds = Bounds()
    ours = later[OURS]
    bounds.hold(f"3.5 M samples/s per core with compaction and rollups: {ours / 1e6:.2f}", kept=ours >= LEAST_RATE)
    for name, times in ((VictoriaMetrics.name, 2), (Prometheus.name, 4)):
        if name in fresh:
            ratio = fresh[OURS] / fresh[name]
            bounds.hold(f"{times} times {name}, series being new: {ratio:.1f}", kept=ratio >= times)
    bounds.hold(f"samples within 1.3 bytes hot: {hot['samples']:.2f}", kept=hot["samples"] <= 1.3)
    bounds.hold(f"samples within 1.0 bytes cold: {cold['samples']:.2f}", kept=cold["samples"] <= 1.0)
    for layer, found in (("hot", hot), ("cold", cold)):
        bounds.hold(f"rollups within 1.0 bytes {layer}: {found['rollups']:.2f}", kept=found["rollups"] <= 1.0)
    return 1 if bounds.broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=64, help="fewer share a transaction less")
    parser.add_argument("--hours", type=float, default=8.0, help="on disk in the end; at least four")
    parser.add_argument("--install", action="store_true", help="fetch Debian's packages first")
    options = parser.parse_args()
    if options.install:
        subprocess.run(["apt-get", "install", "-y", "-qq", *PACKAGES], check=True, stdout=subprocess.DEVNULL)
    return options


if __name__ == "__main__":
    sys.exit(main())
