"""What is kept of bills: versions, charges, quarantine; closing and reopening by people; prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, or_, select, update

from tidegate.model.bill import LedgerSum, Mover, SnapshotVersion
from tidegate.model.charge import Charge, Quarantined, SnapshotKey
from tidegate.model.price import Price
from tidegate.runtime.errors import Permanent
from tidegate.store.bill_codec import COLUMNS, charge_of, version_of
from tidegate.store.bill_import import UNCHANGED, BillSession, clean, importing, versions_query
from tidegate.store.database import Database
from tidegate.store.locks import lock_bills
from tidegate.store.schema_bills import bill_event, bill_quarantine, bill_snapshot, bill_version, charge, price

_LONG = timedelta(minutes=10)
_BATCH = 2000


class StoredBills:
    """Implements the port `Bills`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def importing(
        self, now: datetime, who: str, content: str, files: Sequence[str]
    ) -> AbstractContextManager[BillSession]:
        """An import: nothing of it stands unless all does."""
        return importing(self._database, now, who, content, files)

    def known(self, content: str) -> Sequence[SnapshotVersion]:
        """The versions made of exactly these files, or found as they were in them, when all still stand; else none."""
        said = bill_event.c.what == UNCHANGED, bill_event.c.why == content
        looked = select(bill_event.c.snapshot_id, func.max(bill_event.c.at).label("at")).where(*said)
        with self._database.begin() as connection:
            made = connection.execute(versions_query().where(bill_version.c.content == content)).mappings().all()
            seen = {row.snapshot_id: row.at for row in connection.execute(looked.group_by(bill_event.c.snapshot_id))}
            of_seen = bill_version.c.active, bill_version.c.snapshot_id.in_(seen)
            stand = connection.execute(versions_query().where(*of_seen)).mappings().all()
        newest = {row["snapshot_id"]: version_of(row) for row in sorted(made, key=lambda row: row["number"])}
        newest |= {
            row["snapshot_id"]: version_of(row) for row in stand if row["imported_at"] < seen[row["snapshot_id"]]
        }
        whole = seen.keys() <= newest.keys() and all(version.active for version in newest.values())
        return sorted(newest.values(), key=lambda version: version.key) if whole else []

    def versions(
        self, since: datetime | None = None, until: datetime | None = None, *, active_only: bool = True
    ) -> Sequence[SnapshotVersion]:
        """Versions whose billing period touches [since, until), by snapshot and number."""
        query = versions_query().order_by(
            bill_snapshot.c.billing_start, bill_snapshot.c.source, bill_snapshot.c.account, bill_snapshot.c.shard,
            bill_version.c.number,
        )  # fmt: skip
        if since is not None:
            query = query.where(bill_snapshot.c.billing_end > since)
        if until is not None:
            query = query.where(bill_snapshot.c.billing_start < until)
        if active_only:
            query = query.where(bill_version.c.active)
        with self._database.begin() as connection:
            return [version_of(row) for row in connection.execute(query).mappings()]

    def version(self, version: int) -> SnapshotVersion | None:
        """One version by its id, active or not."""
        with self._database.begin() as connection:
            row = connection.execute(versions_query().where(bill_version.c.id == version)).mappings().one_or_none()
        return version_of(row) if row is not None else None

    def earlier(self, version: SnapshotVersion) -> SnapshotVersion | None:
        """The version of the same snapshot before this one."""
        query = versions_query().where(_place(version.key), bill_version.c.number < version.number)
        query = query.order_by(bill_version.c.number.desc()).limit(1)
        with self._database.begin() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return version_of(row) if row is not None else None

    def movers(self, old: int, new: int, limit: int = 20) -> Sequence[Mover]:
        """What changed most between two versions whose charges are kept, by resource and SKU."""
        signed = case((charge.c.version_id == new, 1), else_=-1)
        resource, sku = func.coalesce(charge.c.resource_id, ""), func.coalesce(charge.c.sku, "")
        billed, effective = func.sum(signed * charge.c.billed), func.sum(signed * charge.c.effective)
        query = (
            select(
                resource.label("resource_id"), sku.label("sku"), charge.c.currency, billed.label("billed"),
                effective.label("effective"),
            )
            .where(charge.c.version_id.in_((old, new)))
            .group_by(resource, sku, charge.c.currency)
            .having(or_(func.coalesce(billed, 0) != 0, func.coalesce(effective, 0) != 0))
            .order_by(func.greatest(func.abs(billed), func.abs(effective)).desc(), resource, sku)
            .limit(limit)
        )  # fmt: skip
        with self._database.begin(statement=_LONG) as connection:
            rows = connection.execute(query).mappings().all()
        return [
            Mover(row["resource_id"], row["sku"], LedgerSum(row["currency"], row["billed"], row["effective"]))
            for row in rows
        ]

    def charges(self, since: datetime, until: datetime, *, by_billing: bool = False) -> Iterator[tuple[int, Charge]]:
        """(version id, charge) of the active versions, in a stable order, a few at a time.

        By charge period: those that touch [since, until), one-off charges at their moment. By billing period: those
        whose billing period starts in it.
        """
        if by_billing:
            within = and_(charge.c.billing_start >= since, charge.c.billing_start < until)
        else:
            lasting = and_(charge.c.start < until, charge.c.end > since)
            at_once = and_(charge.c.start == charge.c.end, charge.c.start >= since, charge.c.start < until)
            within = or_(lasting, at_once)
        active = select(bill_version.c.id).where(bill_version.c.active)
        yield from self._stream(and_(charge.c.version_id.in_(active), within))

    def charges_of(self, version: int) -> Iterator[tuple[int, Charge]]:
        """The charges of one version, active or not."""
        yield from self._stream(charge.c.version_id == version)

    def _stream(self, condition: ColumnElement[bool]) -> Iterator[tuple[int, Charge]]:
        query = select(*(charge.c[name] for name in COLUMNS)).where(condition)
        query = query.order_by(charge.c.version_id, charge.c.start, charge.c.file, charge.c.row)
        with self._database.begin(statement=_LONG) as connection:
            rows = connection.execution_options(yield_per=_BATCH).execute(query).mappings()
            for row in rows:
                yield row["version_id"], charge_of(row)

    def quarantined(self, version: int, limit: int = 1000) -> Sequence[Quarantined]:
        """The quarantined rows of a version, in their order."""
        query = select(bill_quarantine).where(bill_quarantine.c.version_id == version).order_by(bill_quarantine.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query.limit(limit)).mappings().all()
        return [
            Quarantined(row["file"], row["row"], row["reason"], row["amount"], row["currency"], row["text"])
            for row in rows
        ]

    def close(self, key: SnapshotKey, evidence: str, who: str, now: datetime) -> None:
        """Close a snapshot; raises Permanent when there is none, or it is closed, or rows of it are quarantined."""
        with self._database.begin() as connection:
            lock_bills(connection)
            version = _active(connection, key)
            if version.closed:
                raise Permanent(f"it is closed already, by {version.closed_evidence}")
            if version.sums.aside.rows:
                raise Permanent(
                    f"{version.sums.aside.rows} rows of it are quarantined: import a file without them first "
                    "(`tidegate bill quarantine` shows them)"
                )
            _set(connection, key, closed_at=now, closed_by=who, evidence=clean(evidence))
            _say(connection, key, "closed", who, evidence, now)

    def reopen(self, key: SnapshotKey, reason: str, who: str, now: datetime) -> None:
        """Open a closed snapshot again; raises Permanent when there is none or it is open."""
        with self._database.begin() as connection:
            lock_bills(connection)
            if not _active(connection, key).closed:
                raise Permanent("it is open already")
            _set(connection, key, closed_at=None, closed_by="", evidence="")
            _say(connection, key, "reopened", who, reason, now)

    def withdraw(self, key: SnapshotKey, reason: str, who: str, now: datetime) -> None:
        """Let an open snapshot count no longer; its versions stay. Raises Permanent where there is none to withdraw."""
        with self._database.begin() as connection:
            lock_bills(connection)
            version = _active(connection, key)
            if version.closed:
                raise Permanent(f"it is closed by {version.closed_evidence}; reopen it first")
            connection.execute(update(bill_version).where(bill_version.c.id == version.id).values(active=False))
            _say(connection, key, "withdrawn", who, reason, now)

    def prices(self) -> Sequence[Price]:
        """Every price."""
        with self._database.begin() as connection:
            rows = connection.execute(select(price).order_by(price.c.id)).mappings().all()
        return [
            Price(
                provider=row["provider"], sku=row["sku"], currency=row["currency"], amount=row["amount"],
                unit=row["unit"], region=row["region"], gpus=row["gpus"], since=row["since"], until=row["until"],
            )
            for row in rows
        ]  # fmt: skip

    def priced_at(self) -> datetime | None:
        """When a price was last added or replaced; None: never."""
        with self._database.begin() as connection:
            newest: datetime | None = connection.execute(select(func.max(price.c.imported_at))).scalar_one()
        return newest

    def put_prices(self, prices: Sequence[Price], who: str, now: datetime) -> None:
        """Add prices, each in the place of the one for the same provider, SKU, region, unit and `since`."""
        with self._database.begin() as connection:
            lock_bills(connection)
            for each in prices:
                connection.execute(
                    delete(price).where(
                        price.c.provider == each.provider,
                        price.c.sku == each.sku,
                        price.c.region == each.region,
                        price.c.unit == each.unit,
                        price.c.since.is_not_distinct_from(each.since),
                    )
                )
                values = {name: getattr(each, name) for name in Price.__slots__}
                connection.execute(insert(price).values(**values, imported_at=now, imported_by=who))


def _place(key: SnapshotKey) -> ColumnElement[bool]:
    return and_(
        bill_snapshot.c.source == key.source,
        bill_snapshot.c.account == key.account,
        bill_snapshot.c.billing_start == key.start,
        bill_snapshot.c.billing_end == key.end,
        bill_snapshot.c.shard == key.shard,
    )


def _active(connection: Connection, key: SnapshotKey) -> SnapshotVersion:
    row = connection.execute(versions_query().where(bill_version.c.active, _place(key))).mappings().one_or_none()
    if row is None:
        raise Permanent("there is no such snapshot; `tidegate bill list` shows them")
    return version_of(row)


def _set(connection: Connection, key: SnapshotKey, **values: object) -> None:
    connection.execute(update(bill_snapshot).where(_place(key)).values(**values))


def _say(connection: Connection, key: SnapshotKey, what: str, who: str, why: str, now: datetime) -> None:
    snapshot = connection.execute(select(bill_snapshot.c.id).where(_place(key))).scalar_one()
    values = {"snapshot_id": snapshot, "at": now, "who": who, "what": what, "why": clean(why)}
    connection.execute(insert(bill_event).values(**values))
