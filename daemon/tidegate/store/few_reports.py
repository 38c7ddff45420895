"""A few reports in one message: begin, look, store, mark and commit, with one wait for the answer.

That is how nearly all reports come in. Each further message would cost the wake of a process on either side, and
another wait for Python's lock while a tick thinks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.reading import HostName
from tidegate.store.admission import Fresh
from tidegate.store.binary import number_array, text_array
from tidegate.store.buckets import touched
from tidegate.store.database import Database
from tidegate.store.locks import HOSTS_LOCKED
from tidegate.store.marks import MARK, mark_values
from tidegate.store.pack import pack
from tidegate.store.windows import NOTE, Noted, note_values

NO_SCAN = "SET LOCAL enable_seqscan = off"
"""A part that is young has no statistics yet; for so few rows its index is always right."""
_STORE = (
    "INSERT INTO report (host, boot_id, layout_id, sequence, at, received_at, stamped, vector) SELECT n.* FROM unnest("
    "%(hosts)s::text[], %(boots)s::text[], %(layouts)s::text[], %(sequences)s::int8[], %(ats)s::timestamptz[], "
    "%(received)s::timestamptz[], %(stamped)s::bool[], %(vectors)s::bytea[]) "
    "AS n (host, boot_id, layout_id, sequence, at, received_at, stamped, vector) WHERE NOT EXISTS (SELECT FROM "
    "report r WHERE r.host = n.host AND r.boot_id = n.boot_id AND r.sequence = n.sequence) "
    "RETURNING host, boot_id, sequence"
)
_MESSAGE = (HOSTS_LOCKED, NO_SCAN, _STORE, MARK)

Stored = tuple[HostName, str, int]
"""(host, boot id, sequence)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A report to be stored, if it is not there yet."""

    host: HostName
    fresh: Fresh
    received_at: datetime

    @property
    def place(self) -> Stored:
        """What it is unique by."""
        return self.host, self.fresh.report.boot_id, self.fresh.report.sequence


def store_few(database: Database, rows: Sequence[Row], noted: Mapping[Noted, datetime]) -> set[Stored]:
    """Store those that are not there yet, and mark their buckets; answers which they are. No two are of one place.

    `noted`: windows that have to be noted with them, as every host's once in two hours.
    """
    message = (*_MESSAGE, NOTE) if noted else _MESSAGE
    values = {**_values(rows), **note_values(noted)} if noted else _values(rows)
    return {(HostName(host), boot, number) for host, boot, number in database.at_once(message, values)}


def _values(rows: Sequence[Row]) -> Mapping[str, str]:
    told = [row.fresh.report for row in rows]
    return {
        "locked": text_array(sorted({row.host for row in rows})),
        "hosts": text_array([row.host for row in rows]),
        "boots": text_array([report.boot_id for report in told]),
        "layouts": text_array([report.layout for report in told]),
        "sequences": number_array(report.sequence for report in told),
        "ats": text_array([row.fresh.at.isoformat() for row in rows]),
        "received": text_array([row.received_at.isoformat() for row in rows]),
        "stamped": text_array(["t" if row.fresh.stamped else "f" for row in rows]),
        "vectors": text_array(["\\x" + pack(row.fresh.vector).hex() for row in rows]),
        **mark_values(_marks(rows)),
    }


def _marks(rows: Sequence[Row]) -> Collection[tuple[HostName, datetime]]:
    return {(row.host, bucket) for row in rows for bucket in touched(row.fresh.at)}
