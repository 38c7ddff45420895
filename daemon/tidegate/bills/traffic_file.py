"""What a gateway counted by traffic class and tenant: a CSV file with the columns day, pool, tokens, class, tenant."""

from __future__ import annotations

import csv
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from tidegate.model.activity import TrafficShare
from tidegate.runtime.errors import Permanent

_NEEDED = ("day", "pool", "tokens")


def read_traffic(path: Path) -> list[TrafficShare]:
    """Every row; raises Permanent that names the line and what it should be."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise Permanent(f"{path}: the column {missing[0]} is missing; needed are {', '.join(_NEEDED)}")
            return [_share(row, f"{path} line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Permanent(f"{path}: cannot be read: {error}; see [cost] traffic_file") from error


def _share(row: dict[str, str | None], where: str) -> TrafficShare:
    day, tokens = (row["day"] or "").strip(), (row["tokens"] or "").strip()
    try:
        date.fromisoformat(day)
        count = Decimal(tokens)
    except (ValueError, InvalidOperation) as error:
        raise Permanent(f"{where}: day {day!r} must be YYYY-MM-DD and tokens {tokens!r} a number") from error
    if not count.is_finite() or count < 0 or count > Decimal("1e18"):
        raise Permanent(f"{where}: tokens {tokens!r} must be 0 to 1e18")
    return TrafficShare(day, (row["pool"] or "").strip(), (row.get("class") or "").strip(),
                        (row.get("tenant") or "").strip(), count)  # fmt: skip
