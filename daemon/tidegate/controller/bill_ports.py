"""What the book of bills needs of the world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from tidegate.model.bill import BillRead, ImportOrder, Mover, SnapshotSums, SnapshotVersion
from tidegate.model.charge import Charge, Quarantined, SnapshotKey
from tidegate.model.price import Price, Prices


class BillReading(Protocol):
    """One pass over the files of an import."""

    def items(self) -> Iterator[tuple[SnapshotKey, Charge] | Quarantined]:
        """Every row."""
        ...

    def result(self) -> BillRead:
        """What was found, after the last item."""
        ...


class BillReader(Protocol):
    """Opens files."""

    def __call__(self, order: ImportOrder, prices: Prices) -> BillReading:
        """Ready to be iterated."""
        ...


class BillSession(Protocol):
    """An import under way, in one transaction."""

    def add(self, batch: Sequence[tuple[SnapshotKey, Charge] | Quarantined]) -> None:
        """Take some rows."""
        ...

    def before(self) -> Sequence[SnapshotVersion]:
        """The active versions of the time of this import."""
        ...

    def drop(self, key: SnapshotKey) -> None:
        """Take back what was added to a snapshot."""
        ...

    def activate(self, sums: SnapshotSums, evidence: str, why: str) -> int:
        """Put a version in the place of the one before; `evidence` closes the snapshot."""
        ...

    def set_aside(self) -> None:
        """Write the quarantined rows."""
        ...

    def forget(self, keep: int) -> None:
        """Drop the charges of old versions."""
        ...


class Bills(Protocol):
    """What is kept of bills."""

    def importing(
        self, now: datetime, who: str, content: str, files: Sequence[str]
    ) -> AbstractContextManager[BillSession]:
        """An import: nothing of it stands unless all does."""
        ...

    def known(self, content: str) -> Sequence[SnapshotVersion]:
        """The active versions made of exactly these files."""
        ...

    def versions(
        self, since: datetime | None = None, until: datetime | None = None, *, active_only: bool = True
    ) -> Sequence[SnapshotVersion]:
        """Versions whose billing period touches the span."""
        ...

    def version(self, version: int) -> SnapshotVersion | None:
        """One version."""
        ...

    def earlier(self, version: SnapshotVersion) -> SnapshotVersion | None:
        """The version before."""
        ...

    def movers(self, old: int, new: int, limit: int = 20) -> Sequence[Mover]:
        """What changed most."""
        ...

    def quarantined(self, version: int, limit: int = 1000) -> Sequence[Quarantined]:
        """The quarantined rows of a version."""
        ...

    def close(self, key: SnapshotKey, evidence: str, who: str, now: datetime) -> None:
        """Close a snapshot; raises Permanent when it cannot be."""
        ...

    def reopen(self, key: SnapshotKey, reason: str, who: str, now: datetime) -> None:
        """Open a closed snapshot again; raises Permanent when it cannot be."""
        ...

    def withdraw(self, key: SnapshotKey, reason: str, who: str, now: datetime) -> None:
        """Let a snapshot count no longer; raises Permanent when it cannot be."""
        ...

    def prices(self) -> Sequence[Price]:
        """Every price."""
        ...

    def priced_at(self) -> datetime | None:
        """When a price was last added or replaced; None: never."""
        ...

    def put_prices(self, prices: Sequence[Price], who: str, now: datetime) -> None:
        """Add or replace prices."""
        ...
