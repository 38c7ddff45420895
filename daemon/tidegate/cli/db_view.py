"""What `tidegate db status` prints: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tidegate.store.database import Place
from tidegate.store.inventory import Inventory
from tidegate.store.job_runs import JobRun
from tidegate.store.partitions import Part


def as_data(place: Place, found: Inventory, *, embedded: bool) -> dict[str, Any]:
    """Everything, as JSON data; times are ISO 8601, sizes bytes."""
    return {
        "host": place.host,
        "database": place.database,
        "embedded": embedded,
        "server_version": found.server_version,
        "revision": found.revisions.current,
        "head": found.revisions.head,
        "up_to_date": found.revisions.up_to_date,
        "size_bytes": found.size_bytes,
        "tables": [
            {"name": one.name, "level": one.level, "parts": one.parts, "rows": one.rows, "size_bytes": one.size_bytes}
            for one in found.tables
        ],
        "partitions": [
            {"name": one.name, "table": one.parent, "start": _iso(one.start), "end": _iso(one.end)}
            for one in found.parts
        ],
        "lag": [{"what": one.what, "waiting": one.waiting, "since": _iso(one.since)} for one in found.lags],
        "leader": None
        if found.leader is None
        else {
            "name": found.leader.name,
            "epoch": found.leader.epoch,
            "since": _iso(found.leader.since),
            "leads_now": found.leader.now,
        },
        "jobs": [_job(one) for one in found.jobs],
    }


def _job(run: JobRun) -> dict[str, Any]:
    job = run.job
    return {
        "name": job.name,
        "controller": run.controller,
        "noted_at": _iso(run.noted_at),
        "last_success": _iso(job.last_success),
        "runs": job.runs,
        "failures": job.failures,
        "consecutive_failures": job.consecutive_failures,
        "seconds": job.seconds,
        "error": job.error,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def as_text(place: Place, found: Inventory, *, embedded: bool) -> Iterator[str]:
    """The same for people, a line each."""
    stands = found.revisions
    yield f"database   {place}{' (embedded)' if embedded else ''}, Postgres {found.server_version}"
    yield f"revision   {_revision(stands.current, stands.head)}"
    yield f"size       {size(found.size_bytes)}"
    if not stands.up_to_date:
        return
    leader = found.leader
    if leader is None:
        yield "leader     none yet: no controller has worked here"
    else:
        state = "leads" if leader.now else "led last, nobody leads now:"
        yield f"leader     {state} {leader.name}, term {leader.epoch}, since {_moment(leader.since)}"
    for lag in found.lags:
        waits = f"{lag.waiting} waiting, the oldest of {_moment(lag.since)}" if lag.since else "up to date"
        yield f"lag        {lag.what}: {waits}"
    yield ""
    yield from _tables(found)
    yield ""
    yield from _parts(found.parts)
    yield from _jobs(found.jobs)


def _tables(found: Inventory) -> Iterator[str]:
    rows = [(one.name, size(one.size_bytes), f"~{one.rows}", str(one.parts or ""), one.level) for one in found.tables]
    yield from _columns([("table", "size", "rows", "parts", "holds"), *rows])


def _parts(present: Sequence[Part]) -> Iterator[str]:
    by_table: dict[str, list[Part]] = {}
    for one in present:
        by_table.setdefault(one.parent, []).append(one)
    if not by_table:
        yield "parts      none yet"
        return
    rows = [
        (name, str(len(ones)), _moment(min(one.start for one in ones)), _moment(max(one.end for one in ones)))
        for name, ones in sorted(by_table.items())
    ]
    yield from _columns([("split table", "parts", "from", "until"), *rows])


def _jobs(jobs: Sequence[JobRun]) -> Iterator[str]:
    if not jobs:
        return
    yield ""
    rows = [
        (
            run.job.name,
            _moment(run.job.last_success) if run.job.last_success else "never",
            f"{run.job.seconds:.2f} s",
            f"{run.job.failures} of {run.job.runs}",
            run.job.error,
        )
        for run in jobs
    ]
    yield from _columns([("job", "last success", "took", "failed", "error"), *rows])
    yield f"noted {_moment(max(run.noted_at for run in jobs))} by {jobs[-1].controller}"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _revision(current: str | None, head: str) -> str:
    if current == head:
        return f"{current}, up to date"
    return f"{current or 'none: no tables yet'}; this version needs {head}: run `tidegate db migrate --config FILE`"


def size(count: float) -> str:
    """Bytes in a unit that people read."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
