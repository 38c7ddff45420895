"""Ingest and disk: our store, Prometheus and VictoriaMetrics on the samples of the same synthetic fleet, in one run.

First two hours as a fleet reports them: one round of a thousand samples of each host at a time. Ours: from the read
report to chunks and both rollups, this process and Postgres together, agents' threads and group commit included. The
peers: remote write of some of these hosts (they need minutes), their own process alone, the client left out (which
favours them). Then some hours more in larger messages, and what lies on disk of it all. Exits 1 when a bound is broken.
Debian's packages `prometheus` and `victoria-metrics` are needed (`--install` fetches them); where one is absent it is
left out. Give it a machine of its own: what else runs makes every figure worse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from parts.fleet_samples import SERIES, START, STEP_SECONDS, HostSamples, Samples
from parts.peers import Peer, Prometheus, VictoriaMetrics, remote_write
from parts.store_ingest import OurStore
from parts.table import Bounds, show

from tidegate.model.series import SeriesKey

WINDOW_ROUNDS = 480
"""Two hours."""
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


def labels(host: HostSamples) -> list[Mapping[str, str]]:
    """A host's series as the peers know them."""
    return [_labels(host.name, key) for key in host.keys]


def _labels(host: str, key: SeriesKey) -> Mapping[str, str]:
    named = {"owner": key.owner, "rank": key.rank, "le": key.le}
    return {"__name__": f"tidegate_{key.name}", "host": host} | {name: text for name, text in named.items() if text}


def tell_ours(ours: OurStore, hosts: Sequence[HostSamples], parts: Sequence[Samples], spent: Spent) -> None:
    """The first part: round by round, then what becomes of them."""
    reports = ours.reports(hosts, parts)
    with spent.on("reports", lambda: sum(ours.cpu_seconds())):
        ours.take(hosts, reports)
    now = float(parts[0].moments[-1]) + 420.0
    with spent.on("compaction", lambda: sum(ours.cpu_seconds())):
        ours.compact(now)
    with spent.on("usage", lambda: sum(ours.cpu_seconds())):
        ours.roll_up(now)


def tell_peer(peer: Peer, hosts: Sequence[HostSamples], parts: Sequence[Samples], at_once: int) -> None:
    """A message for each host and so many rounds."""
    named = [labels(host) for host in hosts]
    for cut in range(0, len(parts[0].moments), at_once):
        for mine, part in zip(named, parts, strict=True):
            times = np.round(part.moments[cut : cut + at_once] * 1_000).astype(np.int64)
            values = part.values[cut : cut + at_once].T
            peer.write(remote_write(mine, np.broadcast_to(times, values.shape), values))


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
    hosts = [HostSamples(number) for number in range(options.hosts)]
    scraped, share = WINDOW_ROUNDS * options.windows, min(options.peer_hosts, options.hosts)
    day = int(options.hours * 3_600 / STEP_SECONDS)
    with tempfile.TemporaryDirectory(prefix="tg-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)
        ours = stack.enter_context(OurStore(folder))
        peers = [
            stack.enter_context(kind(folder / kind.program))
            for kind in (VictoriaMetrics, Prometheus)
            if kind.installed()
        ]
        spent = {name: Spent() for name in (OURS, *(peer.name for peer in peers))}
        for _ in range(options.windows):
            parts = [host.next(WINDOW_ROUNDS) for host in hosts]
            tell_ours(ours, hosts, parts, spent[OURS])
            for peer in peers:
                with spent[peer.name].on("remote write", peer.cpu_seconds):
                    tell_peer(peer, hosts[:share], parts[:share], 1)
        hot = {name: size / (scraped * SERIES * len(hosts)) for name, size in layers(ours.sizes()).items()}
        for _ in range(scraped, day, WINDOW_ROUNDS):
            parts = [host.next(WINDOW_ROUNDS) for host in hosts]
            ours.take(hosts, ours.reports(hosts, parts), AT_ONCE)
            for peer in peers:
                tell_peer(peer, hosts[:share], parts[:share], AT_ONCE)
        ours.compact(START + options.hours * 3_600 + 86_400)
        for peer in peers:
            peer.settle()
        each = max(day, scraped) * SERIES
        total = each * len(hosts)
        cold = {name: size / total for name, size in layers(_without_hot(ours.sizes())).items()}
        print(f"{len(hosts)} hosts of {SERIES} series every {STEP_SECONDS:.0f} s; {share} of them for the peers")
        told = {name: scraped * SERIES * (len(hosts) if name == OURS else share) for name in spent}
        rates = _tell_rates(spent, told)
        _tell_disk(hot, cold, peers, each * share)
    return _judge(rates, hot, cold)


def _without_hot(sizes: Mapping[str, int]) -> dict[str, int]:
    """Hot parts that have been emptied are dropped whole by the next retention."""
    return {name: size for name, size in sizes.items() if not name.endswith("_hot")}


def _tell_rates(spent: Mapping[str, Spent], samples_of: Mapping[str, int]) -> dict[str, float]:
    rows, rates = [], {}
    for name, one in spent.items():
        samples = samples_of[name]
        counted = {what: seconds for what, seconds in one.seconds.items() if what != "usage"}
        rates[name] = samples / sum(counted.values())
        rows += [
            (name, what, f"{seconds:.1f}", f"{samples / seconds / 1e6:.2f}") for what, seconds in one.seconds.items()
        ]
        rows.append((name, "all of it", f"{sum(counted.values()):.1f}", f"{rates[name] / 1e6:.2f}"))
    show(("", "", "CPU s", "M samples/s per core"), rows)
    return rates


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


def _judge(rates: Mapping[str, float], hot: Mapping[str, float], cold: Mapping[str, float]) -> int:
    bounds = Bounds()
    ours = rates[OURS]
    bounds.hold(f"3.5 M samples/s per core with compaction and rollups: {ours / 1e6:.2f}", kept=ours >= LEAST_RATE)
    for name, times in ((VictoriaMetrics.name, 2), (Prometheus.name, 4)):
        if name in rates:
            bounds.hold(f"{times} times {name}: {ours / rates[name]:.1f}", kept=ours >= times * rates[name])
    bounds.hold(f"samples within 1.3 bytes hot: {hot['samples']:.2f}", kept=hot["samples"] <= 1.3)
    bounds.hold(f"samples within 1.0 bytes cold: {cold['samples']:.2f}", kept=cold["samples"] <= 1.0)
    for layer, found in (("hot", hot), ("cold", cold)):
        bounds.hold(f"rollups within 1.0 bytes {layer}: {found['rollups']:.2f}", kept=found["rollups"] <= 1.0)
    return 1 if bounds.broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--peer-hosts", type=int, default=20, help="hosts that the peers are told of as well")
    parser.add_argument("--windows", type=int, default=1, help="of two hours, reported round by round")
    parser.add_argument("--hours", type=float, default=8.0, help="on disk in the end, the windows included")
    parser.add_argument("--install", action="store_true", help="fetch Debian's packages first")
    options = parser.parse_args()
    if options.install:
        subprocess.run(["apt-get", "install", "-y", "-qq", *PACKAGES], check=True, stdout=subprocess.DEVNULL)
    return options


if __name__ == "__main__":
    sys.exit(main())
