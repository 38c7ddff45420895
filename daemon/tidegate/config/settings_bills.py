"""What `[bills]` means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BillSettings:
    """The `[bills]` and `[[bill_host]]` tables."""

    accounts: tuple[str, ...] = ()
    """Billing accounts that may be imported; empty: any."""
    currency: str = ""
    """Of bills that name none, for what arrives by itself."""
    folder: Path | None = None
    """Where bills arrive as files."""
    address: str = ""
    """Where bills arrive in object storage."""
    options_file: Path | None = None
    """JSON for fsspec: keys, endpoint; read when it is needed."""
    poll: timedelta = timedelta(minutes=15)
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Resource id of a bill, case folded -> our host."""
