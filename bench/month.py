"""A month of fifty hosts in the store: its size on disk, the time of each board's query, the time of each job.

Every host has a thousand series at 15 s, eight engines and eight GPUs; there are ten pools. Samples are kept for 15
days, rollups for the month (bench/parts/month.py says how it is made in minutes). Queries are those of the boards, as
Grafana would send them for a month and for six hours, by the role that `tidegate db reader` makes; each is asked five
times and its median printed. Jobs are run as the controller runs them, on two hours of reports of all hosts that have
just come in. Exits 1 when a query takes longer than 300 ms.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from parts import month
from parts.fleet_samples import STEP_SECONDS, HostSamples
from parts.table import Bounds, show

from tidegate.model.history import METRICS, Aggregate, Label, Question
from tidegate.model.reading import HostName
from tidegate.model.records import LEVELS
from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.readers import STATEMENT
from tidegate.store.schema_series import WINDOW
from tidegate.store.store import Store
from tidegate.wire import Layout, Report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from fakes.grafana import expand  # noqa: E402 - the tests' stand-in for Grafana's macros

MOST_MS = 300
ASKED = 5
WANTED_BYTES = 25e9
SHOWN = ((timedelta(days=30), timedelta(minutes=30)), (timedelta(hours=6), timedelta(seconds=15)))
"""How long a board shows, and the width of a point that Grafana chooses for it."""
POOLS = [f"pool-{number + 1}" for number in range(month.POOLS)]


def board_queries(since: datetime, until: datetime, interval: timedelta) -> Iterator[tuple[str, str]]:
    """Title and SQL of every panel, variable and annotation."""
    for path in sorted((ROOT / "dashboards" / "boards").glob("*.json")):
        board: Any = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", expand(target["rawSql"], since, until, POOLS, interval)
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{path.stem}: ${variable['name']}", expand(variable["query"], since, until, POOLS, interval)
        for note in board["annotations"]["list"]:
            if "target" in note:
                yield f"{path.stem}: {note['name']}", expand(note["target"]["rawSql"], since, until, POOLS, interval)


def time_queries(dsn: str, end: datetime, bounds: Bounds) -> None:
    """Every board's query, as often as it takes for a median."""
    rows: dict[str, list[object]] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = '{int(STATEMENT.total_seconds())}s'")
        for span, interval in SHOWN:
            for title, sql in board_queries(end - span, end, interval):
                took = [_milliseconds(lambda q=sql: connection.execute(q.encode()).fetchall()) for _ in range(ASKED)]  # type: ignore[misc]
                rows.setdefault(title, []).append(round(statistics.median(took), 1))
    show(["board's query, ms", "30 days", "6 hours"], [[title, *found] for title, found in sorted(rows.items())])
    slowest = max(float(str(found)) for row in rows.values() for found in row)
    bounds.hold(f"no board's query over {MOST_MS} ms (slowest {slowest:.0f})", kept=slowest < MOST_MS)


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def report_two_hours(store: Store, hosts: int, start: datetime) -> float:
    """Every host delivers two hours of reports, 120 at a time; answers how long that took."""
    count, took = int(WINDOW.total_seconds() / STEP_SECONDS), 0.0
    for number in range(hosts):
        host = HostSamples(number + 1, start.timestamp())
        made = host.next(count)
        layout = Layout(id=host.layout, series=[key.row() for key in host.keys])
        reports = [
            Report(
                boot_id="b",
                sequence=place + 1,
                at=float(at),
                layout=host.layout,
                values=row.astype("<f8").tobytes(),
            )
            for place, (at, row) in enumerate(zip(made.moments, made.values, strict=True))
        ]
        began = time.perf_counter()
        for first in range(0, count, 120):
            store.reports.accept(HostName(host.name), [layout], reports[first : first + 120], start + WINDOW)
        took += time.perf_counter() - began
    return took


def time_jobs(store: Store, fleet: month.Fleet) -> None:
    """Each job once, in the order of a day."""
    now = fleet.end + WINDOW
    intake = report_two_hours(store, fleet.hosts, fleet.end)
    later = now + timedelta(minutes=6)
    jobs: list[tuple[str, Callable[[], object]]] = [
        ("usage of two hours, all engines", lambda: store.usage.roll_up(later)),
        ("compaction of two hours, all hosts", lambda: _until_done(store, later)),
        ("rollups of pools, a minute later", lambda: store.figures.roll_up(later)),
        ("prune", lambda: store.retention.prune(later, timedelta(days=15), timedelta(days=400), LEVELS)),
        ("prune of figures and rollups", lambda: store.figures.prune(later, timedelta(days=400))),
    ]
    rows: list[list[object]] = [["intake of two hours, all hosts", round(intake, 2)]]
    rows += [[name, round(_milliseconds(job) / 1000, 2)] for name, job in jobs]
    show(["job", "s"], rows)


def _until_done(store: Store, now: datetime) -> None:
    while store.compaction.compact(now).windows:
        pass


def time_history(store: Store, end: datetime) -> None:
    """Questions to the typed functions, over all hosts."""
    rows: list[list[object]] = []
    for name, by, aggregate in (("queue_depth", Label.HOST, Aggregate.AVG), ("ttft", Label.HOST, Aggregate.P95)):
        for days, step in ((1, timedelta(minutes=5)), (30, timedelta(hours=1))):
            question = Question(METRICS[name], end - timedelta(days=days), end, step, aggregate, by=(by,))
            took = _milliseconds(lambda q=question: store.histories.query(q))  # type: ignore[misc]
            rows.append([f"{name} {aggregate.value} by {by.value}, {days} d, all hosts", round(took)])
    show(["/v1/query, ms", "took"], rows)


def main() -> int:
    """Make the month, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    hosts = parser.parse_args().hosts
    folder = Path(tempfile.mkdtemp(prefix="tg-"))
    folder.chmod(0o711)
    if shutil.disk_usage(folder).free < WANTED_BYTES * hosts / 50:
        print(f"skipped: {WANTED_BYTES * hosts / 50e9:.0f} GB of free space are wanted in {folder}")
        folder.rmdir()
        return 0
    server, bounds = EmbeddedPostgres(folder, durable=False), Bounds()
    try:
        server.start()
        measure(server.dsn, month.Fleet(hosts, month.midnight(datetime.now(UTC))), bounds)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bounds.broken else 0


def measure(dsn: str, fleet: month.Fleet, bounds: Bounds) -> None:
    """Fill the database and print every figure."""
    database = open_database(dsn)
    migrate.upgrade(database)
    store, began = Store(database), time.perf_counter()
    month.samples(database, fleet)
    month.ticks(database, fleet)
    month.usage(database, fleet)
    month.recent(database, fleet)
    made = time.perf_counter() - began
    rolled = _milliseconds(lambda: store.figures.roll_up(fleet.end)) / 1000
    store.retention.prune(fleet.end, timedelta(days=month.SAMPLES_KEPT), timedelta(days=400), LEVELS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (FULL) pool_figure")  # half of it was pruned just now, which never happens at once
        connection.execute("VACUUM (ANALYZE) pool_rollup, usage_rollup, decision, action, engine_figure, gpu_figure")
        connection.execute("ANALYZE")
    print(f"{fleet.hosts} hosts, a thousand series each: made in {made:.0f} s, its pools rolled up in {rolled:.1f} s")
    found = list(month.sizes(database))
    show(["table", "MB"], [[name, f"{size / 1e6:,.1f}"] for name, size in found if size > 1e6])
    print(f"all: {sum(size for _, size in found) / 1e9:.2f} GB")
    _per_sample(dict(found), fleet)
    time_queries(dsn, fleet.end, bounds)
    time_history(store, fleet.end)
    time_jobs(store, fleet)
    database.close()


def _per_sample(found: dict[str, int], fleet: month.Fleet) -> None:
    rounds = fleet.hosts * 1_000 * 86_400 / STEP_SECONDS
    samples = (found["chunk"] + found["chunk_clock"]) / (rounds * month.SAMPLES_KEPT)
    rollups = (found["rollup_5m"] + found["rollup_1h"]) / (rounds * month.DAYS)
    print(f"bytes a sample: {samples:.2f} in chunks, {rollups:.2f} in rollups")


if __name__ == "__main__":
    sys.exit(main())
