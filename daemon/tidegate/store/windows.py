"""Which two hours of which host have to be compacted: noted by intake once a window, and again for what comes late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, and_, exists, func, select, update

from tidegate.model.reading import HostName
from tidegate.store.binary import cursor, text_array
from tidegate.store.schema import horizon
from tidegate.store.schema_series import COLD, WINDOW, series_window

CLOSES = timedelta(minutes=1)
"""After its end a window takes reports of its own time for so long; what comes later is noted each time."""
WAIT = timedelta(minutes=5)
"""A window is compacted so long after its end: well after the last transaction with reports that were in time."""
LATE = timedelta(minutes=10)
"""Late reports are gathered for so long, so that a backlog that comes in pieces costs few compactions."""
COOLS = timedelta(hours=6)
"""Windows are merged so long after the end of the eight hours."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 100_000

NOTE = (
    "INSERT INTO series_window AS w (host, start, version, done, not_before, samples, cold) "
    "SELECT host, start, 1, 0, not_before, 0, false FROM unnest(%(noted)s::text[], "
    "%(starts)s::timestamptz[], %(not_before)s::timestamptz[]) AS m (host, start, not_before) "
    "ON CONFLICT (host, start) DO UPDATE SET version = w.version + 1, "
    "not_before = CASE WHEN w.done = w.version THEN excluded.not_before ELSE w.not_before END"
)
_REFRESHED = (
    "SELECT version, done, (SELECT bool_or(w.cold) FROM series_window w WHERE w.host = %s AND w.start >= %s "
    "AND w.start < %s) FROM series_window WHERE host = %s AND start = %s"
)
_SETTLE = "UPDATE series_window SET done = %s, samples = %s, cold = %s WHERE host = %s AND start = %s"
"""As texts: of what is asked once a window and host, making the statement costs more than what it does."""


Noted = tuple[HostName, datetime]
"""A host and the start of its window."""


def note(connection: Connection, dates: Mapping[Noted, datetime]) -> None:
    """Note windows, with the moment to look at each."""
    if dates:
        with cursor(connection) as bare:
            bare.execute(NOTE, note_values(dates))


def note_values(dates: Mapping[Noted, datetime]) -> dict[str, str]:
    """What `NOTE` wants; at least one window."""
    ordered = sorted(dates)  # in one order, so that nobody waits in a circle
    return {
        "noted": text_array([host for host, _ in ordered]),
        "starts": text_array([start.isoformat() for _, start in ordered]),
        "not_before": text_array([dates[one].isoformat() for one in ordered]),
    }


def window_of(at: datetime) -> datetime:
    """The start of the window that the moment falls in."""
    return at - (at - _EPOCH) % WINDOW


def is_over(start: datetime, received_at: datetime) -> bool:
    """True when what is received then comes too late for the window: it is noted each time."""
    return received_at > start + WINDOW + CLOSES


def span_start(at: datetime) -> datetime:
    """The start of the cold row that the moment falls in."""
    return at - (at - _EPOCH) % COLD


@dataclass(frozen=True, slots=True)
class Window:
    """A host's two hours, and what has been made of them."""

    host: HostName
    start: datetime
    version: int = 0
    done: int = 0
    cold: bool = False


class Windows:
    """Notes windows that reports have come for; one that is open is noted once, whatever comes."""

    def __init__(self) -> None:
        self._open: dict[datetime, set[HostName]] = {}
        self._lock = Lock()

    def unnoted(self, found: set[tuple[HostName, datetime]], received_at: datetime) -> dict[Noted, datetime]:
        """Which windows have to be noted when reports of these are stored, and when to look at each; mostly none.

        Call `remember` with them when that is certain.
        """
        late = {one for one in found if is_over(one[1], received_at)}
        opened = self._open
        fresh = {one for one in found - late if one[0] not in opened.get(one[1], ())}
        return {one: one[1] + WINDOW + WAIT for one in fresh} | dict.fromkeys(late, received_at + LATE)

    def remember(self, noted: Mapping[Noted, datetime], received_at: datetime) -> None:
        """These windows are noted for as long as they are open; one that was late has to be noted each time."""
        fresh = {one for one in noted if not is_over(one[1], received_at)}
        if not fresh:
            return
        # Nothing of this goes over all hosts: they come with new windows all at once.
        newest = max(start for _, start in fresh)
        with self._lock:
            if any(start <= newest - 2 * WINDOW for start in self._open):
                self._open = {start: hosts for start, hosts in self._open.items() if start > newest - 2 * WINDOW}
            for host, start in fresh:
                self._open.setdefault(start, set()).add(host)
            if sum(map(len, self._open.values())) > _MOST:
                self._open = {}

    def forget(self) -> None:
        """Note everything again: the database may have lost what it was told."""
        with self._lock:
            self._open = {}


def due(connection: Connection, now: datetime, limit: int) -> list[Window]:
    """Windows that have to be compacted, oldest first."""
    found = series_window.c
    waiting = select(found.host, found.start).where(found.not_before <= now, found.done < found.version)
    rows = connection.execute(waiting.order_by(found.start, found.host).limit(limit))
    return [Window(HostName(row.host), row.start) for row in rows]


def refreshed(connection: Connection, window: Window) -> Window:
    """The window as it stands now; it is cold when any of the same cold row is."""
    since = span_start(window.start)
    with cursor(connection) as bare:
        row = bare.execute(_REFRESHED, [window.host, since, since + COLD, window.host, window.start]).fetchone()
    return Window(window.host, window.start, *row) if row else window


def settle(connection: Connection, window: Window, samples: int) -> None:
    """The window's chunks hold so many reports, those of the version that was read and all before it."""
    with cursor(connection) as bare:
        bare.execute(_SETTLE, [window.version, samples, window.cold, window.host, window.start])


def put_off(connection: Connection, host: HostName, since: datetime, until: datetime, not_before: datetime) -> None:
    """Do nothing with the host's windows that begin with since <= start < until for some time."""
    found = series_window.c
    ours = and_(found.host == host, found.start >= since, found.start < until)
    connection.execute(update(series_window).where(ours).values(not_before=not_before))


def mergeable(connection: Connection, now: datetime, limit: int) -> list[tuple[HostName, datetime]]:
    """Hosts and starts of cold rows that can be made: all their windows are done, and have been left alone since.

    What was forgotten by now stays as it is: its windows are not all there any more.
    """
    found = series_window.c
    start = func.date_bin(COLD, found.start, _EPOCH).label("span")
    query = (
        select(found.host, start)
        .where(~found.cold, found.start < span_start(now - COOLS) - WINDOW / 2)
        .where(~exists().where(horizon.c.reports_from > found.start))
        .group_by(found.host, start)
        .having(func.bool_and((found.done == found.version) & (found.not_before <= now)))
        .order_by(start, found.host)
        .limit(limit)
    )
    return [(HostName(row.host), row.span) for row in connection.execute(query)]


def settle_cold(connection: Connection, host: HostName, start: datetime) -> bool:
    """The windows of this cold row are cold; False, and nothing changed, when one has to be worked out again first."""
    found = series_window.c
    ours = and_(found.host == host, found.start >= start, found.start < start + COLD)
    waiting = select(func.count()).where(ours, found.done < found.version)
    changed = update(series_window).where(ours, waiting.scalar_subquery() == 0).values(cold=True)
    return connection.execute(changed).rowcount > 0
