"""What a user may write about bills. Defaults are those of config/settings_bills.py."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from tidegate.config.fields import Duration, FilePath, Pattern, Text
from tidegate.config.schema_base import Currency, LongName, Table
from tidegate.config.settings_bills import BillSettings

_BILLS = BillSettings()

RemoteAddress = Annotated[
    str, Pattern(r"[a-z0-9]+://[^\s?#@]+", "an address such as s3://bucket/folder, without a secret in it", secret=True)
]


class BillsTable(Table):
    """`[bills]`: which bills may come, and where they arrive by themselves."""

    accounts: tuple[Text, ...] = _BILLS.accounts
    currency: Currency | None = None
    folder: Annotated[Path, FilePath()] | None = None
    address: RemoteAddress | None = None
    options_file: Annotated[Path, FilePath()] | None = None
    poll_minutes: Annotated[timedelta, Duration("minutes", 1, 1440)] = _BILLS.poll


class BillHostTable(Table):
    """`[[bill_host]]`: a resource of a bill that is one of our hosts, where neither its id nor its tags say so."""

    resource: Text
    host: LongName
