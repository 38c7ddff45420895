"""What of a batch may be stored: the pure checks before any SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.model.reading import HostName
from tidegate.model.series import SeriesKey, rows_id
from tidegate.model.unflatten import check
from tidegate.wire import Layout, Range, Report

FUTURE = timedelta(minutes=5)
"""A report from further ahead comes from a host whose clock is wrong."""
PAST = timedelta(days=30)
"""No spool keeps a report this long (default 72 h): the host's clock is wrong."""

Keys = tuple[SeriesKey, ...]
Place = tuple[str, int]
"""Where a report stands in its host's life: (boot id, sequence)."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """A report to be stored, with the moment that it is stored under."""

    report: Report
    at: datetime
    vector: bytes
    stamped: bool
    """True when the host's own time was impossible and the time of receipt stands instead."""


def read_layout(host: HostName, layout: Layout) -> Keys:
    """The layout's series; raises ValueError when its id is not its content's or no reading can be made of it."""
    keys = tuple(SeriesKey(*row) for row in layout.series)
    if rows_id(layout.series) != layout.id:
        raise ValueError(f"layout {layout.id} of host {host}: the id is not the hash of its series")
    if len(set(keys)) != len(keys):
        raise ValueError(f"layout {layout.id} of host {host} names a series twice")
    try:
        check(keys)
    except ValueError as error:
        raise ValueError(f"layout {layout.id} of host {host} cannot be read: {error}") from error
    return keys


def admit(
    reports: Iterable[Report], lengths: Mapping[str, int], stored: frozenset[Place], received_at: datetime
) -> tuple[list[Fresh], list[str]]:
    """Which reports are new and complete, and which layouts are wanting; `lengths` by layout id, in series.

    Raises ValueError when a vector's length does not fit its layout.
    """
    fresh: dict[Place, Fresh] = {}
    wanting: dict[str, None] = {}
    for report in reports:
        place = (report.boot_id, report.sequence)
        if place in stored or place in fresh:
            continue
        if report.layout not in lengths:
            wanting[report.layout] = None
            continue
        vector = _whole(report, lengths[report.layout])
        at, stamped = moment(report.at, received_at)
        fresh[place] = Fresh(report, at, vector, stamped)
    return list(fresh.values()), list(wanting)


def _whole(report: Report, length: int) -> bytes:
    vector = report.values
    if len(vector) != 8 * length:
        raise ValueError(
            f"report {report.boot_id}/{report.sequence}: {len(vector) // 8} values for the {length} series of layout "
            f"{report.layout}"
        )
    return vector


def moment(seconds: float, received_at: datetime) -> tuple[datetime, bool]:
    """When a report is stored under, and whether that is the time of receipt since the host's own is impossible."""
    said = datetime.fromtimestamp(seconds, UTC)
    possible = received_at - PAST <= said <= received_at + FUTURE
    return (said, False) if possible else (received_at, True)


def ranges(places: Iterable[Place]) -> tuple[Range, ...]:
    """The sequence numbers as runs without holes, by boot."""
    runs: list[Range] = []
    for boot_id, sequence in sorted(set(places)):
        if runs and runs[-1].boot_id == boot_id and runs[-1].last == sequence - 1:
            runs[-1] = Range(boot_id=boot_id, first=runs[-1].first, last=sequence)
        else:
            runs.append(Range(boot_id=boot_id, first=sequence, last=sequence))
    return tuple(runs)
