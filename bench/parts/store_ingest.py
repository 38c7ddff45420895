"""Our store under a fleet that reports: from the body of a request to chunks and rollups; what it costs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
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
from tidegate.wire import Batch, Incoming, Layout, Report

AT_A_TIME = 64
"""Hosts whose reports go together: what a controller takes in while its last transaction is under way."""
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
        self._layouts: dict[str, str] = {}

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

    def bodies(self, hosts: Sequence[HostSamples], parts: Sequence[Samples], at_once: int = 1) -> list[list[bytes]]:
        """What the agents of these hosts post of the samples: so many reports in each, the layouts with the first."""
        first, self._sequence = self._sequence + 1, self._sequence + len(parts[0].moments)
        return [
            [
                _body(host, part, slice(cut, cut + at_once), first + cut, self._layouts)
                for cut in range(0, len(part.moments), at_once)
            ]
            for host, part in zip(hosts, parts, strict=True)
        ]

    def take(self, bodies: Sequence[Sequence[bytes]]) -> None:
        """Deliver every host's bodies in order, all hosts at the same time: read, stored, answered."""

        for number in range(len(bodies[0])):
            for first in range(0, len(bodies), AT_A_TIME):
                group = [Batch.model_validate_json(one[number]) for one in bodies[first : first + AT_A_TIME]]
                incoming = [
                    Incoming(HostName(one.host), one.layouts, one.reports, datetime.fromtimestamp(one.sent_at, UTC))
                    for one in group
                ]
                for outcome in self.store.reports.accept_all(incoming):
                    if isinstance(outcome, Exception):
                        raise outcome

    def compact(self, now: float) -> None:
        """All that is due at the moment."""
        moment = datetime.fromtimestamp(now, UTC)
        while (done := self.store.compaction.compact(moment)).windows or done.merged:
            pass

    def roll_up(self, now: float) -> None:
        """Usage, as the controller does once a minute."""
        self.store.usage.roll_up(datetime.fromtimestamp(now, UTC))

    def cpu_seconds(self) -> float:
        """Of this process and of the database, with what it has ended."""
        ended = sum(int(field) for field in _stat(self._postmaster)[13 - 1 : 15 - 1]) / _TICK
        return time.process_time() + cpu_seconds(family(self._postmaster)) + ended

    def sizes(self) -> dict[str, int]:
        """Bytes of each table with its indexes and TOAST; parts by the table that they are parts of."""
        with self._database.begin() as connection:
            return {str(row.name): int(row.bytes) for row in connection.execute(_SIZES)}


def _body(host: HostSamples, part: Samples, cut: slice, first: int, layouts: dict[str, str]) -> bytes:
    """A batch as JSON; `first`: its first sequence number, `layouts`: ids by host, of those that were told already."""
    told = []
    if host.name not in layouts:
        told = [Layout(id=host.layout, series=[key.row() for key in host.keys])]
        layouts[host.name] = told[0].id
    reports = [
        Report(boot_id=BOOT, sequence=first + number, at=float(at), layout=layouts[host.name], values=row.tobytes())
        for number, (at, row) in enumerate(zip(part.moments[cut], part.values[cut], strict=True))
    ]
    batch = Batch(host=host.name, sent_at=reports[-1].at + 1.0, layouts=told, reports=reports)
    return batch.model_dump_json().encode()


def _stat(pid: int) -> list[str]:
    """The fields of proc(5) from the process' state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
