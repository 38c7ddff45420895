"""Our own small format for what no cloud bills: colocation, power, owned hardware (docs/billing.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import inclusive_end
from tidegate.model.charge import Charge, ChargeCategory, ServiceClass

_KINDS: Mapping[str, tuple[ChargeCategory, ServiceClass]] = {
    "compute": (ChargeCategory.USAGE, ServiceClass.COMPUTE),
    "depreciation": (ChargeCategory.USAGE, ServiceClass.COMPUTE),
    "power": (ChargeCategory.USAGE, ServiceClass.COMPUTE),
    "space": (ChargeCategory.USAGE, ServiceClass.COMPUTE),
    "network": (ChargeCategory.USAGE, ServiceClass.NETWORK),
    "bandwidth": (ChargeCategory.USAGE, ServiceClass.NETWORK),
    "storage": (ChargeCategory.USAGE, ServiceClass.STORAGE),
    "support": (ChargeCategory.USAGE, ServiceClass.OTHER),
    "other": (ChargeCategory.USAGE, ServiceClass.OTHER),
    "tax": (ChargeCategory.TAX, ServiceClass.OTHER),
    "credit": (ChargeCategory.CREDIT, ServiceClass.OTHER),
    "adjustment": (ChargeCategory.ADJUSTMENT, ServiceClass.OTHER),
}


class OwnReader(Cells):
    """One file. The amount belongs to the whole period, whatever its hours: no price per hour is made of it."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._source, self._invoice = find("source", "account"), find("invoiceid")
        self._start, self._end, self._last = find("periodstart"), find("periodend"), find("periodlastday")
        self._currency, self._amount, self._kind = find("currency"), find("amount"), find("category")
        self._hosts, self._note, self._region = find("hosts", "host"), find("note"), find("region", "site")

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a line."""
        amount = self.amount(cells, self._amount)
        kind = self.text(cells, self._kind).casefold()
        if kind not in _KINDS:
            raise RowError(f"category {kind[:40]!r} is not one of {', '.join(_KINDS)}")
        category, service = _KINDS[kind]
        start, end = self._period(cells)
        hosts = tuple(name for name in re.split(r"[;,\s]+", self.text(cells, self._hosts)) if name)
        return Charge(
            provider="own",
            account=self.account(cells, self._source),
            billing_start=start,
            billing_end=end,
            start=start,
            end=end,
            currency=self.currency(cells, self._currency),
            billed=amount,
            effective=amount,
            category=category,
            service=service,
            service_name=kind,
            resource_id=hosts[0] if len(hosts) == 1 else "",
            region=self.text(cells, self._region),
            pricing_category="standard",
            frequency="recurring",
            hosts=hosts,
            description=self.text(cells, self._note),
            invoice_id=self.text(cells, self._invoice),
            file=self.manner.file,
            row=row,
        )

    def _period(self, cells: list[str]) -> tuple[datetime, datetime]:
        start, end = self.time(cells, self._start), self.time(cells, self._end)
        last = self.time(cells, self._last)
        if end is None and last is not None:
            end = inclusive_end(last)
        if start is None or end is None:
            raise RowError("period_start and period_end (exclusive) or period_last_day are needed")
        if end <= start:
            raise RowError("the period ends before it starts; period_end is the first moment after it")
        return start, end

    def hint(self, cells: list[str]) -> Hint:
        """The amount."""
        return self.told(cells, (self._amount,), self._currency, self._source, self._start)


OWN = Format(
    name="own",
    title="colocation and owned hardware",
    needs=(("amount",), ("periodstart",), ("periodend", "periodlastday"), ("category",)),
    lacks=("billedcost",),
    reader=OwnReader,
    money=("amount",),
    times=("periodstart", "periodend", "periodlastday"),
)
