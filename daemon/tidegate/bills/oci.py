"""Oracle Cloud cost reports, the legacy CSV (https://docs.oracle.com/iaas/Content/Billing/Concepts/usagereportsoverview.htm)."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import month_around
from tidegate.bills.words import class_of
from tidegate.model.charge import Charge


class OciReader(Cells):
    """One file. Tags stand in a column for each key, which differ from tenant to tenant."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._cost, self._currency = find("costmycost"), find("costcurrencycode")
        self._account = find("lineitemtenantid")
        self._used = find("lineitemintervalusagestart"), find("lineitemintervalusageend")
        self._service, self._description = find("productservice"), find("productdescription")
        self._resource, self._sku = find("productresourceid", "productresource"), find("costproductsku")
        self._region, self._zone = find("productregion"), find("productavailabilitydomain")
        self._compartment = find("productcompartmentid")
        self._quantity, self._unit = (
            find("usagebilledquantity"),
            find("costbillingunitreadable", "costskuunitdescription"),
        )
        self._correction = find("lineitemiscorrection")
        self._tag_columns = columns.prefixed({"tags/": ""})

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a line item."""
        cost = self.amount(cells, self._cost)
        start, end = self.time(cells, self._used[0]), self.time(cells, self._used[1])
        if start is None:
            raise RowError("lineItem/intervalUsageStart is empty")
        if end is not None and end < start:
            raise RowError("usage ends before it starts")
        billing_start, billing_end = month_around(start)
        service, description = self.text(cells, self._service), self.text(cells, self._description)
        return Charge(
            provider="oci",
            account=self.account(cells, self._account),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=end or start,
            currency=self.currency(cells, self._currency),
            billed=cost,
            effective=cost,
            correction=self.text(cells, self._correction).casefold() == "true",
            service=class_of(description, service),
            service_name=service,
            resource_id=self.text(cells, self._resource),
            sku=description or self.text(cells, self._sku),
            region=self.text(cells, self._region),
            zone=self.text(cells, self._zone),
            sub_account=self.text(cells, self._compartment),
            consumed_quantity=self.measure(cells, self._quantity),
            consumed_unit=self.text(cells, self._unit),
            pricing_category="standard",
            frequency="usage-based",
            tags=self._tags_of(cells),
            description=description,
            file=self.manner.file,
            row=row,
        )

    def _tags_of(self, cells: list[str]) -> Mapping[str, str]:
        return {key: cells[place] for key, place in self._tag_columns if cells[place]}

    def hint(self, cells: list[str]) -> Hint:
        """The cost, and the month of its usage."""
        told = self.told(cells, (self._cost,), self._currency, self._account, self._used[0])
        return Hint(told.amount, told.currency, told.account, month_around(told.start)[0] if told.start else None)


OCI = Format(
    name="oci",
    title="Oracle Cloud cost report",
    needs=(("costmycost",), ("lineitemintervalusagestart",)),
    reader=OciReader,
    money=("costmycost",),
    times=("lineitemintervalusagestart", "lineitemintervalusageend"),
)
