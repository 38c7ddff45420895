"""A book of bills over a real database, fed with small files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tidegate.bills.orders import hashes_of, order_of
from tidegate.bills.parts import gather
from tidegate.bills.reading import reading_of
from tidegate.bills.wishes import Wishes
from tidegate.controller.bill_book import BillBook
from tidegate.model.bill import ImportResult, SnapshotVersion
from tidegate.runtime.clock import Clock
from tidegate.store.bills import StoredBills


class Book:
    """Imports texts and files; what is there is asked of the store."""

    def __init__(self, store: StoredBills, folder: Path, clock: Clock, accounts: Sequence[str] = ()) -> None:
        self.store, self.folder = store, folder
        self.book = BillBook(clock, store, reading_of, lambda: accounts)

    def text(self, text: str, name: str = "bill.csv", *, force: bool = False, **said: str) -> ImportResult:
        """Import a file with this text."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return self.file(path, force=force, **said)

    def file(self, *paths: Path, force: bool = False, **said: str) -> ImportResult:
        """Import files."""
        bundle = gather(list(paths))
        return self.book.take(order_of(bundle, Wishes(**said), hashes_of(bundle), force=force), "test")

    @property
    def active(self) -> Sequence[SnapshotVersion]:
        """What counts."""
        return self.store.versions()

    @property
    def state(self) -> list[tuple[str, str, int, str]]:
        """(source, account, version, billed) of what counts."""
        return [
            (each.key.source, each.key.account, each.number, str(each.sums.totals[0].billed)) for each in self.active
        ]


ALWAYS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
