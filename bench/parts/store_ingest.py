"""Our store under a fleet that reports: many threads, one report at a time, then compaction; what it costs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from parts.fleet_samples import HostSamples, Samples
from parts.processes import cpu_seconds, family
from sqlalchemy import text

from tidegate.model.reading import HostName
from tidegate.store import migrate
from tidegate.store.database import open_database
from tidegate.store.embedded import EmbeddedPostgres
from tidegate.store.store import Store
from tidegate.wire import Layout, Report

THREADS = 64
"""As many as the threads that a controller takes reports with, and more: an agent each."""
BOOT = "6f1e1c1e-5a80-4c4b-9b1d-0c7d2f6a8a11"
_TICK = os.sysconf("SC_CLK_TCK")
_SIZES = text(
    "SELECT coalesce(p.relname, c.relname) AS name, sum(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c "
    "LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent "
    "WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1"
)


class OurStore:
    """The real store on its own embedded Postgres, durable as in production."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder)
        self._sequence = 0

    def __enter__(self) -> OurStore:
        self._server.start()
        self._database = open_database(self._server.dsn)
        migrate.upgrade(self._database)
        self.store = Store(self._database)
        with self._database.begin() as connection:
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        self._postmaster = int(_stat(backend)[1])
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._database.close()
        self._server.stop()

    def reports(self, hosts: Sequence[HostSamples], parts: Sequence[Samples]) -> list[list[Report]]:
        """What the agents would send of the samples, as the wire has read it."""
        layouts = [host.layout for host in hosts]
        first = self._sequence + 1
        self._sequence += len(parts[0].moments)
        return [
            [
                Report(
                    boot_id=BOOT,
                    sequence=first + number,
                    at=float(at),
                    layout=layout,
                    values=row.tobytes(),
                )
                for number, (at, row) in enumerate(zip(part.moments, part.values, strict=True))
            ]
            for layout, part in zip(layouts, parts, strict=True)
        ]

    def take(self, hosts: Sequence[HostSamples], reports: Sequence[Sequence[Report]], at_once: int = 1) -> None:
        """Deliver every host's reports in order, `at_once` in a batch, all hosts at the same time."""
        sent = [list(range(0, len(mine), at_once)) for mine in reports]
        layouts = [[Layout(id=host.layout, series=[key.row() for key in host.keys])] for host in hosts]

        def work(mine: Sequence[int]) -> None:
            for cut in sent[0]:
                for place in mine:
                    batch = reports[place][cut : cut + at_once]
                    known = [] if batch[0].sequence > 1 else layouts[place]
                    at = datetime.fromtimestamp(batch[-1].at, UTC) + timedelta(seconds=1)
                    self.store.reports.accept(HostName(hosts[place].name), known, batch, at)

        shares = [range(number, len(hosts), THREADS) for number in range(min(THREADS, len(hosts)))]
        threads = [threading.Thread(target=work, args=(share,)) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def compact(self, now: float) -> None:
        """All that is due at the moment."""
        moment = datetime.fromtimestamp(now, UTC)
        while (done := self.store.compaction.compact(moment)).windows or done.merged:
            pass

    def roll_up(self, now: float) -> None:
        """Usage, as the controller does once a minute."""
        self.store.usage.roll_up(datetime.fromtimestamp(now, UTC))

    def cpu_seconds(self) -> tuple[float, float]:
        """Of this process, and of the database with what it has ended."""
        ended = sum(int(field) for field in _stat(self._postmaster)[13 - 1 : 15 - 1]) / _TICK
        return time.process_time(), cpu_seconds(family(self._postmaster)) + ended

    def sizes(self) -> dict[str, int]:
        """Bytes of each table with its indexes and TOAST; parts by the table that they are parts of."""
        with self._database.begin() as connection:
            return {str(row.name): int(row.bytes) for row in connection.execute(_SIZES)}


def _stat(pid: int) -> list[str]:
    """The fields of proc(5) from the process' state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
