"""One import of bills: charges flow into new versions, which become active together, in one transaction, or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql
from sqlalchemy import Connection, Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from tidegate.model.bill import SnapshotSums, SnapshotVersion
from tidegate.model.charge import Charge, Quarantined, SnapshotKey
from tidegate.store.bill_codec import COLUMNS, CopyLines, sums_json, version_of
from tidegate.store.database import Database
from tidegate.store.locks import lock_bills
from tidegate.store.schema_bills import bill_event, bill_quarantine, bill_snapshot, bill_version, charge

UNCHANGED = "unchanged"
"""The event of an import that found a snapshot as it was; its reason is the hash of the files."""
_NO_LIMIT = timedelta()
_TURN = timedelta(minutes=15)
"""How long an import waits for another one."""
_QUARANTINE_KEPT = 10_000
"""Rows kept for a person to look at; their number and amount are exact however many there are."""
_COPY = sql.SQL("COPY charge ({}) FROM STDIN").format(sql.SQL(", ").join(map(sql.Identifier, COLUMNS)))
_BLOCK = 1 << 18


@dataclass(slots=True)
class BillSession:
    """An import under way."""

    connection: Connection
    now: datetime
    who: str
    content: str
    files: Sequence[str]
    _versions: dict[SnapshotKey, tuple[int, int, int]] = field(default_factory=dict)
    """Snapshot id, version id, number."""
    _aside: list[Quarantined] = field(default_factory=list)
    _lines: CopyLines = field(default_factory=CopyLines)
    _sizes: dict[int, int] = field(default_factory=dict)
    """Rows by version."""

    def add(self, batch: Sequence[tuple[SnapshotKey, Charge] | Quarantined]) -> None:
        """Take some rows; bounded memory whatever their number."""
        charges = [each for each in batch if isinstance(each, tuple)]
        room = _QUARANTINE_KEPT - len(self._aside)
        self._aside += [each for each in batch if isinstance(each, Quarantined)][: max(0, room)]
        self._make_versions(charges)
        driver: Any = self.connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
            block: list[str] = []
            size = 0
            last, version = None, 0
            for key, row in charges:
                if key is not last:
                    last, version = key, self._versions[key][1]
                line = self._lines.line(version, row)
                block.append(line)
                size += len(line)
                if size >= _BLOCK:
                    copy.write("".join(block).encode("utf-8", "replace"))
                    block, size = [], 0
            copy.write("".join(block).encode("utf-8", "replace"))

    def _make_versions(self, charges: Sequence[tuple[SnapshotKey, Charge]]) -> None:
        """Before a COPY begins: while one runs the connection can do nothing else."""
        last = None
        for key, _ in charges:
            if key is not last and key not in self._versions:
                self._versions[key] = self._new_version(key)
            last = key

    def _new_version(self, key: SnapshotKey) -> tuple[int, int, int]:
        place = {
            "source": key.source,
            "account": key.account,
            "billing_start": key.start,
            "billing_end": key.end,
            "shard": key.shard,
        }
        self.connection.execute(
            insert(bill_snapshot).values(**place, closed_by="", evidence="").on_conflict_do_nothing()
        )
        same = [bill_snapshot.c[name] == value for name, value in place.items()]
        snapshot = self.connection.execute(select(bill_snapshot.c.id).where(*same)).scalar_one()
        newest = select(func.coalesce(func.max(bill_version.c.number), 0)).where(bill_version.c.snapshot_id == snapshot)
        number = int(self.connection.execute(newest).scalar_one()) + 1
        new = insert(bill_version).values(
            snapshot_id=snapshot,
            number=number,
            active=False,
            charges_kept=True,
            imported_at=self.now,
            imported_by=self.who,
            content=self.content,
            files=list(self.files),
            rows=0,
            quarantined=0,
            effective_usable=False,
            sums={},
        )
        return snapshot, self.connection.execute(new.returning(bill_version.c.id)).scalar_one(), number

    def before(self) -> Sequence[SnapshotVersion]:
        """The active versions of the time of this import, whosever: one account has a name in each export."""
        if not self._versions:
            return []
        first, last = min(key.start for key in self._versions), max(key.end for key in self._versions)
        touching = bill_snapshot.c.billing_start < last, bill_snapshot.c.billing_end > first
        rows = self.connection.execute(versions_query().where(bill_version.c.active, *touching))
        return [version_of(row) for row in rows.mappings()]

    def drop(self, key: SnapshotKey) -> None:
        """Take back what was added to a snapshot: it is no news."""
        snapshot, version, _ = self._versions.pop(key)
        self.connection.execute(delete(charge).where(charge.c.version_id == version))
        self.connection.execute(delete(bill_version).where(bill_version.c.id == version))
        left = select(func.count()).select_from(bill_version).where(bill_version.c.snapshot_id == snapshot)
        if self.connection.execute(left).scalar_one():
            self._say(snapshot, UNCHANGED, self.content)
        else:
            self.connection.execute(delete(bill_snapshot).where(bill_snapshot.c.id == snapshot))

    def activate(self, sums: SnapshotSums, evidence: str, why: str) -> int:
        """Put a version in the place of the one before; returns its number. `evidence` closes the snapshot."""
        snapshot, version, number = self._versions[sums.key]
        self._sizes[version] = sums.rows
        of_snapshot = bill_version.c.snapshot_id == snapshot
        self.connection.execute(update(bill_version).where(of_snapshot, bill_version.c.active).values(active=False))
        values = {
            "active": True,
            "rows": sums.rows,
            "quarantined": sums.aside.rows,
            "effective_usable": sums.effective_usable,
            "sums": sums_json(sums),
        }
        self.connection.execute(update(bill_version).where(bill_version.c.id == version).values(**values))
        self._say(snapshot, "imported", why)
        if evidence:
            closing = {"closed_at": self.now, "closed_by": "the bill", "evidence": evidence}
            self.connection.execute(update(bill_snapshot).where(bill_snapshot.c.id == snapshot).values(**closing))
            self._say(snapshot, "closed", evidence)
        return number

    def set_aside(self) -> None:
        """Write the quarantined rows to the versions that they speak of, else to the largest one."""
        if not self._aside or not self._versions:
            return
        by_place = {(key.account, key.start): ids[1] for key, ids in self._versions.items()}
        largest = max((self._sizes.get(ids[1], 0), key, ids[1]) for key, ids in self._versions.items())[2]
        rows = [
            {
                "version_id": by_place.get((row.account, row.billing_start or self.now), largest),
                "file": row.file,
                "row": row.row,
                "reason": clean(row.reason),
                "amount": row.amount,
                "currency": row.currency,
                "text": clean(row.text),
            }
            for row in self._aside
        ]
        self.connection.execute(insert(bill_quarantine), rows)

    def forget(self, keep: int) -> None:
        """Drop the charges of versions that are `keep` or more behind; their sums stay."""
        for snapshot, _, number in self._versions.values():
            old = select(bill_version.c.id).where(
                bill_version.c.snapshot_id == snapshot,
                ~bill_version.c.active,
                bill_version.c.number <= number - keep,
                bill_version.c.charges_kept,
            )
            ids = list(self.connection.execute(old).scalars())
            if ids:
                self.connection.execute(delete(charge).where(charge.c.version_id.in_(ids)))
                self.connection.execute(
                    update(bill_version).where(bill_version.c.id.in_(ids)).values(charges_kept=False)
                )

    def _say(self, snapshot: int, what: str, why: str) -> None:
        row = {"snapshot_id": snapshot, "at": self.now, "who": self.who, "what": what, "why": clean(why)}
        self.connection.execute(insert(bill_event).values(**row))


@contextmanager
def importing(database: Database, now: datetime, who: str, content: str, files: Sequence[str]) -> Iterator[BillSession]:
    """A session in a transaction of its own, one at a time; undone on any error, and by the death of this process."""
    with database.begin(statement=_NO_LIMIT, lock=_TURN) as connection:
        lock_bills(connection)
        yield BillSession(connection, now, who, content, files)


def versions_query() -> Select[Any]:
    """Versions with their snapshots, as `version_of` reads them."""
    return select(
        bill_version.c.id.label("version_id"),
        bill_version.c.snapshot_id,
        bill_version.c.number,
        bill_version.c.active,
        bill_version.c.charges_kept,
        bill_version.c.imported_at,
        bill_version.c.imported_by,
        bill_version.c.content,
        bill_version.c.files,
        bill_version.c.sums,
        bill_snapshot.c.source,
        bill_snapshot.c.account,
        bill_snapshot.c.billing_start,
        bill_snapshot.c.billing_end,
        bill_snapshot.c.shard,
        bill_snapshot.c.closed_at,
        bill_snapshot.c.evidence,
    ).join(bill_snapshot, bill_snapshot.c.id == bill_version.c.snapshot_id)


def clean(text: str) -> str:
    """Text that Postgres takes: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
