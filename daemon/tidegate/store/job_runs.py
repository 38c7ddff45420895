"""Keep how the jobs last did, so that `tidegate db status` knows it when no controller answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select

from tidegate.model.overview import JobOverview
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.schema_jobs import job_run
from tidegate.store.upsert import upsert


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job as a leader last noted it."""

    job: JobOverview
    controller: str
    noted_at: datetime


class StoredJobRuns:
    """One row a job."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence

    def note(self, jobs: Sequence[JobOverview], controller: str, now: datetime) -> None:
        """Put these in place of what was noted before."""
        rows = [{**asdict(job), "controller": controller, "noted_at": now} for job in jobs if job.runs]
        if not rows:
            return
        with self._database.begin() as connection:
            self._fence.check(connection)
            connection.execute(upsert(job_run, rows))

    def all(self) -> list[JobRun]:
        """Every job that was ever noted, by name."""
        with self._database.begin() as connection:
            rows = connection.execute(select(job_run).order_by(job_run.c.name)).mappings().all()
        found = []
        for row in rows:
            plain = dict(row)
            controller, noted_at = plain.pop("controller"), plain.pop("noted_at")
            found.append(JobRun(JobOverview(**plain), controller, noted_at))
        return found
