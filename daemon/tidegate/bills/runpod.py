"""RunPod's billing answers, as JSON or CSV: one row a pod (endpoint, volume; or all of them) and bucket of time.

https://docs.runpod.io/api-reference-v2/billing/get-pod-billing-history. Where no
total stands, the parts are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.bills.cells import EXACT
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import DAY, month_around
from tidegate.model.charge import NO_CURRENCY, Charge, ServiceClass

_TOTAL = ("totalamount", "amount", "total", "totalcost", "cost")
_DISKS = (
    ("diskamount", "diskcost", "storageamount", "storagecost", "diskspaceamount"), ("poddiskamount",),
    ("serverlessdiskamount",), ("storagestandardamount",), ("storagehighperformanceamount",), ("clusterdiskamount",),
)  # fmt: skip
_OTHERS = (
    ("gpuamount", "gpucost"), ("cpuamount", "cpucost"), ("feeamount",), ("podgpuamount",), ("podcpuamount",),
    ("serverlessgpuamount",), ("serverlesscpuamount",), ("serverlessfeeamount",), ("endpointamount",),
    ("clustergpuamount",), ("clusternetworkingamount",),
)  # fmt: skip
_PARTS = tuple(name for names in (*_DISKS, *_OTHERS) for name in names)
_START = ("starttime", "bucketstart", "time", "start", "date")
_IDS = ("podid", "endpointid", "networkvolumeid", "volumeid", "clusterid", "serverlessid")
_ROUNDED = Decimal("1e-6")
_BUCKETS = {"hour": timedelta(hours=1), "day": DAY, "week": 7 * DAY}


class RunPodReader(Cells):
    """One file; the disk's part of a pod is a charge of its own."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._total = find(*_TOTAL)
        self._disks, self._others = [find(*each) for each in _DISKS], [find(*each) for each in _OTHERS]
        self._start, self._end, self._bucket = find(*_START), find("endtime", "bucketend", "end"), find("bucketsize")
        self._ids, self._name = [find(each) for each in _IDS], find("podname", "name")
        self._gpu_type, self._currency = find("gputypeid", "gputype", "gpu"), find("currency")
        self._account, self._region = find("accountid", "userid", "teamid"), find("datacenterid", "region")
        self._milliseconds = find("timebilledms")

    def read(self, cells: list[str], row: int) -> tuple[Charge, ...]:
        """The compute charge of a record, and that of its disk."""
        disk = sum_of([self.number(cells, place) for place in self._disks])
        parts = [self.number(cells, place) for place in self._others]
        total = self.number(cells, self._total)
        if total is None and disk is None and not any(part is not None for part in parts):
            raise RowError("no amount")
        added = sum_of([*parts, disk])
        if total is None:
            total = added or Decimal(0)
        elif added is not None and parts != [None] * len(parts) and abs(added - total) > _ROUNDED:
            self.note("the parts of a record do not add up to its total: the total counts, the rest as compute")
        rest = EXACT.subtract(total, disk or Decimal(0))
        compute = self._charge(cells, row, rest)
        if disk is None or disk == 0:
            return (compute,)
        return (
            compute,
            replace(
                compute, billed=disk, effective=disk, service=ServiceClass.STORAGE, sku="disk", consumed_quantity=None
            ),
        )

    def _charge(self, cells: list[str], row: int, amount: Decimal) -> Charge:
        start = self.time(cells, self._start)
        if start is None:
            raise RowError("no time")
        billing_start, billing_end = month_around(start)
        milliseconds = self.number(cells, self._milliseconds)
        volume = any(cells[place] for place in self._ids[2:4])
        return Charge(
            provider="runpod",
            account=self.account(cells, self._account),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=self._end_of(cells, start),
            currency=self._usd(cells),
            billed=amount,
            effective=amount,
            service=ServiceClass.STORAGE if volume else ServiceClass.COMPUTE,
            service_name="RunPod",
            resource_id=self.text(cells, *self._ids),
            resource_name=self.text(cells, self._name),
            sku=self.text(cells, self._gpu_type),
            region=self.text(cells, self._region),
            consumed_quantity=None if milliseconds is None else EXACT.divide(milliseconds, Decimal(3_600_000)),
            consumed_unit="" if milliseconds is None else "Hours",
            pricing_category="standard",
            frequency="usage-based",
            file=self.manner.file,
            row=row,
        )

    def _usd(self, cells: list[str]) -> str:
        """RunPod bills dollars; its answers do not say so."""
        found = self.currency(cells, self._currency)
        return "USD" if found == NO_CURRENCY else found

    def _end_of(self, cells: list[str], start: datetime) -> datetime:
        end = self.time(cells, self._end)
        if end is not None and end >= start:
            return end
        size = self.text(cells, self._bucket).casefold()
        if size == "month":
            return month_around(start)[1]
        if size not in _BUCKETS:
            self.note("no end and no bucketSize: taken as a day")
        return start + _BUCKETS.get(size, DAY)

    def hint(self, cells: list[str]) -> Hint:
        """The total."""
        told = self.told(cells, (self._total,), self._currency, self._account, self._start)
        start = month_around(told.start)[0] if told.start else None
        return Hint(told.amount, "USD" if told.currency == NO_CURRENCY else told.currency, told.account, start)


def sum_of(amounts: Sequence[Decimal | None]) -> Decimal | None:
    """What is there of some amounts, None where nothing is."""
    there = [amount for amount in amounts if amount is not None]
    total = Decimal(0)
    for amount in there:
        total = EXACT.add(total, amount)
    return total if there else None


RUNPOD = Format(
    name="runpod",
    title="RunPod billing",
    needs=((*_IDS, "gputypeid", "podgpuamount", "podcpuamount"), (*_TOTAL, *_PARTS), _START),
    lacks=("billedcost", "lineitemlineitemtype"),
    reader=RunPodReader,
    money=("totalamount", "amount"),
    times=(*_START, "endtime"),
)
