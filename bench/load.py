"""Two thousand hosts on one controller on one core: how long a report takes, beside a bare handler of the same server.

    python bench/load.py [HOSTS] [SECONDS] [WARM]

Everything on loopback, bounded in count and time. A Postgres of our own and the process that the load comes from run on
another core than the controller. First a bare handler of the same HTTP server takes the same bodies at the same rate,
then a real controller does, with a long poll of every host open, pools for all engines, and its tick every 15 s.
The minute measured has a full two hours of a played clock in its middle, when every host's windows, buckets and figures
turn over at once: no minute is harder.
Then, in this process alone, what a tick thinks about is worked out for 200 pools and 2,000 replicas.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
from parts.load_controller import Database, Prepared, bare_server, controller, prepare
from parts.load_view import tick_view
from parts.table import Bounds, show

from tidegate.runtime.clock import VARIABLE, ScaledClock

HERE = Path(__file__).resolve().parent
HOSTS, SECONDS, WARM = 2_000, 60, 90
"""After WARM seconds all layouts are known, but most series are still being given their numbers, for ten minutes."""
INTERVAL = 15.0
DISK_WRITES = 500
WINDOW = 7_200
START = 5
"""Seconds that a controller takes until it is ready, or so."""
MEDIAN_MS, TIMES_BARE, VIEW_MS = 20.0, 10.0, 100.0


def load(
    port: int, made: Prepared, warm: int, seconds: int, *, polls: bool, began: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Let every host report; milliseconds and counts after `warm` seconds, when `began` is called."""
    cores = os.sched_getaffinity(0)
    beside = ",".join(str(core) for core in cores - {max(cores)} or cores)  # or it runs on the controller's too
    command = ["taskset", "-c", beside, sys.executable, str(HERE / "parts" / "load_generator.py")]
    words = [*command, str(port), str(made.folder), str(warm), str(seconds), "polls" if polls else "none"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as generator:
        assert generator.stderr is not None
        assert generator.stdout is not None
        if generator.stderr.readline().strip() == "measured":
            began()
        said = generator.stdout.read()
        if generator.wait():
            raise SystemExit(generator.stderr.read())
    return {name: float(value) for name, value in (line.split() for line in said.splitlines())}


def play(seconds: float) -> None:
    """Let the programs that are started from now on see a full two hours so many seconds from now."""
    mark = (time.time() // WINDOW + 1) * WINDOW
    os.environ[VARIABLE] = ScaledClock(time.time(), datetime.fromtimestamp(mark - seconds, UTC), 1.0).text()


def metric(port: int, name: str) -> float:
    """One figure of the controller's own exposition."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def disk(folder: Path) -> tuple[float, float]:
    """Median and p99, in milliseconds, of putting 8 kB on the disk: an acknowledged report has waited for that."""
    took = []
    with (folder / "disk").open("wb", buffering=0) as file:
        for _ in range(DISK_WRITES):
            began = time.perf_counter()
            file.write(bytes(8192))
            os.fdatasync(file.fileno())
            took.append(1000 * (time.perf_counter() - began))
            time.sleep(0.01)
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured in one run."""

    disk: tuple[float, float]
    bare: dict[str, float]
    real: dict[str, float]
    wall: float
    """Seconds of the measured part, as `cpu` of the controller and `ticks`."""
    cpu: float
    ticks: float
    failed: float
    tick_seconds: float


def measure(hosts: int, seconds: int, warm: int) -> Run:
    """The bare handler, then the controller, on the same core."""
    core = max(os.sched_getaffinity(0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tg-load-")))
        folder.chmod(0o711)
        database = stack.enter_context(Database(folder / "db", core))
        made = prepare(folder, database.dsn, hosts, INTERVAL)
        with bare_server(core) as bare_port:
            bare = load(bare_port, made, 2, seconds, polls=False)
        disk_took = disk(folder)
        play(START + warm + seconds / 2)
        port, process = stack.enter_context(controller(made, core))
        looks: list[tuple[float, float, float]] = []

        def look() -> None:
            looks.append((metric(port, "tidegate_ticks_total"), time.monotonic(), process.cpu()))

        real = load(port, made, warm, seconds, polls=True, began=look)
        look()
        (ticks_before, began, cpu_before), (ticks, ended, cpu) = looks
        failed = metric(port, 'tidegate_ticks_total{result="failed"}')
        tick = metric(port, "tidegate_tick_duration_seconds")
        return Run(disk_took, bare, real, ended - began, cpu - cpu_before, ticks - ticks_before, failed, tick)


def main() -> int:
    """Measure, print, and say whether the bounds were kept."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else HOSTS
    seconds = min(600, int(sys.argv[2])) if len(sys.argv) > 2 else SECONDS
    warm = min(1_800, int(sys.argv[3])) if len(sys.argv) > 3 else WARM
    run, bounds = measure(hosts, seconds, warm), Bounds()
    bare, real = run.bare, run.real
    rows = [
        (name, f"{one['count']:.0f}", f"{one['median']:.2f}", f"{one['p99']:.2f}", f"{one['errors']:.0f}")
        for name, one in (("bare handler", bare), ("controller", real))
    ]
    show(("", "reports", "median ms", "p99 ms", "errors"), rows)
    print("8 kB on the disk, at the start: median {:.1f} ms, p99 {:.1f} ms".format(*run.disk))
    share = run.cpu / run.wall
    print(f"{hosts} hosts at {INTERVAL:g} s, {real['polls']:.0f} long polls open: {share:.0%} of the core")
    print(f"{1000 * run.cpu / real['count']:.2f} ms of CPU for each report, ticks of {run.tick_seconds:.2f} s included")
    bounds.hold(f"median of a report under {MEDIAN_MS:g} ms", kept=real["median"] < MEDIAN_MS)
    times = real["p99"] / bare["p99"]
    bounds.hold(f"p99 within {TIMES_BARE:g} times the bare handler's ({times:.1f})", kept=times <= TIMES_BARE)
    bounds.hold("no report refused or lost", kept=real["errors"] == 0)
    on_time = run.ticks >= int(run.wall / INTERVAL) and not run.failed
    bounds.hold(f"the tick undisturbed ({run.ticks:.0f} in {run.wall:.0f} s)", kept=on_time)
    view = tick_view()
    print(f"a tick's view of 200 pools and 2,000 replicas: {view:.0f} ms of CPU")
    bounds.hold(f"under {VIEW_MS:g} ms", kept=view < VIEW_MS)
    return bounds.broken


if __name__ == "__main__":
    sys.exit(main())
