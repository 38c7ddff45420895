"""What the bill routes need of the controller: plain values in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.model.bill import ImportOrder, ImportResult, Mover, SnapshotVersion
from tidegate.model.charge import Quarantined
from tidegate.model.price import Price


class BillsApi(Protocol):
    """The book of bills. Calls block on the database, and raise Transient or Permanent."""

    def known(self, content: str) -> ImportResult | None:
        """What was made of exactly these files before, when all of it still stands."""
        ...

    def take(self, order: ImportOrder, who: str) -> ImportResult:
        """Import files, all or nothing."""
        ...

    def versions(self, *, every: bool) -> Sequence[SnapshotVersion]:
        """The active versions, or all."""
        ...

    def version(self, version: int) -> SnapshotVersion:
        """One version."""
        ...

    def compare(
        self, version: int, against: int | None
    ) -> tuple[SnapshotVersion | None, SnapshotVersion, Sequence[Mover] | None]:
        """(the one before, this one, what changed most)."""
        ...

    def quarantined(self, version: int) -> Sequence[Quarantined]:
        """The quarantined rows of a version."""
        ...

    def close(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Close the snapshot of a version."""
        ...

    def reopen(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Open it again."""
        ...

    def withdraw(self, version: int, reason: str, who: str) -> SnapshotVersion:
        """Let the snapshot of a version count no longer."""
        ...

    def prices(self) -> Sequence[Price]:
        """Every price."""
        ...

    def put_prices(self, prices: Sequence[Price], who: str) -> None:
        """Add or replace prices."""
        ...
