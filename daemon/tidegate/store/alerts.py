"""Alert states, and the notices that they owe until a channel took them or they are given up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Update, exists, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.alert import AlertState, Notice
from tidegate.store.codec import alert_from, alert_json, alert_of
from tidegate.store.database import Database
from tidegate.store.fence import Fence
from tidegate.store.schema import alert, notice
from tidegate.store.upsert import upsert

_OF_A_CHANNEL = 5
"""Notices of one channel at once."""


class StoredAlerts:
    """Implements the port `Alerts`."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self._fence = fence

    def states(self) -> Sequence[AlertState]:
        """Every alert that was ever active, by fingerprint."""
        with self._database.begin() as connection:
            rows = connection.execute(select(alert).order_by(alert.c.fingerprint)).mappings().all()
        return [alert_of(row) for row in rows]

    def save(self, states: Sequence[AlertState], notices: Sequence[Notice]) -> None:
        """Write states and enqueue notices, one transaction; a notice that is known already is not sent again."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            if states:
                connection.execute(upsert(alert, [_alert_row(state) for state in states]))
            if notices:
                connection.execute(insert(notice).on_conflict_do_nothing(), [_notice_row(item) for item in notices])

    def told(self, fingerprint: str) -> Sequence[str]:
        """The channels that a notice of this alert was ever meant for, by name."""
        query = (
            select(notice.c.channel).where(notice.c.fingerprint == fingerprint).distinct().order_by(notice.c.channel)
        )
        with self._database.begin() as connection:
            return connection.execute(query).scalars().all()

    def due(self, now: datetime, limit: int = 20) -> Sequence[tuple[Notice, int]]:
        """Notices to try now, oldest first, with the attempts already made.

        Of one alert to one channel only the oldest that is owed, so that no "resolved" overtakes its "firing"; of one
        channel a few, so that many that wait for a dead one hide no other's.
        """
        earlier = notice.alias("earlier")
        overtaken = exists().where(
            earlier.c.channel == notice.c.channel,
            earlier.c.fingerprint == notice.c.fingerprint,
            earlier.c.next_at.is_not(None),
            tuple_(earlier.c.created_at, earlier.c.id) < tuple_(notice.c.created_at, notice.c.id),
        )
        order = (notice.c.created_at, notice.c.id)
        place = func.row_number().over(partition_by=notice.c.channel, order_by=order).label("place")
        waiting = select(notice, place).where(notice.c.next_at <= now, ~overtaken).subquery()
        query = select(waiting).where(waiting.c.place <= _OF_A_CHANNEL).order_by(waiting.c.created_at, waiting.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query.limit(limit)).mappings().all()
        return [(_notice(row), row["attempts"]) for row in rows]

    def claim(self, notice_id: str, now: datetime, until: datetime) -> bool:
        """Keep a notice that is due from everybody else until then; False when it is not due any more.

        Raises Transient when this controller does not lead: the one who does sends it.
        """
        due = (notice.c.id == notice_id) & (notice.c.next_at <= now)
        with self._database.begin() as connection:
            self._fence.check(connection)
            return connection.execute(update(notice).where(due).values(next_at=until)).rowcount > 0

    def delivered(self, notice_id: str, at: datetime) -> None:
        """The channel took it: true whoever leads by now, and so the one write that asks for no term."""
        with self._database.begin() as connection:
            connection.execute(_attempted(notice_id, next_at=None, delivered_at=at, error=""))

    def retry(self, notice_id: str, at: datetime | None, error: str) -> None:
        """Try again at the given time; never again when None: given up, and kept as such."""
        with self._database.begin() as connection:
            self._fence.check(connection)
            connection.execute(_attempted(notice_id, next_at=at, given_up=at is None, error=error))


def _attempted(notice_id: str, **changes: Any) -> Update:
    open_one = (notice.c.id == notice_id) & notice.c.delivered_at.is_(None)
    return update(notice).where(open_one).values(attempts=notice.c.attempts + 1, **changes)


def _alert_row(state: AlertState) -> dict[str, Any]:
    moments = {"since": state.since, "starts_at": state.starts_at, "ends_at": state.ends_at}
    return {**alert_json(state), **moments}


def _notice_row(item: Notice) -> dict[str, Any]:
    return {
        "id": item.id,
        "channel": item.channel,
        "fingerprint": item.alert.fingerprint,
        "alert": alert_json(item.alert),
        "created_at": item.created_at,
        "attempts": 0,
        "next_at": item.created_at,
        "given_up": False,
        "error": "",
    }


def _notice(row: RowMapping) -> Notice:
    return Notice(row["id"], row["channel"], alert_from(row["alert"]), row["created_at"])
