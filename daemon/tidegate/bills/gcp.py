"""Google Cloud billing export: standard and detailed, as CSV, JSON lines or Parquet, nested or flattened.

https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables. The net amount is cost plus the credits, which
are negative. The invoice month follows US Pacific time, usage is in UTC: usage of the 1st may be on the last invoice.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeGuard

from tidegate.bills.cells import EXACT, NOTHING, decimal_of
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import month_around, pacific_month
from tidegate.bills.words import class_of
from tidegate.model.charge import Charge, ChargeCategory, ServiceClass

_CATEGORIES = {
    "": ChargeCategory.USAGE,
    "regular": ChargeCategory.USAGE,
    "tax": ChargeCategory.TAX,
    "adjustment": ChargeCategory.ADJUSTMENT,
    "rounding_error": ChargeCategory.ADJUSTMENT,
}
_ZERO = Decimal(0)
_CREDIT_SUMS = ("creditsamount", "creditamount", "creditstotal", "credittotal", "creditssum", "totalcredits")
"""The credits of a row in one figure, as queries flatten them."""
_LONGEST_LIST = 1 << 16


class GcpReader(Cells):
    """One file."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._cost, self._currency, self._account = find("cost"), find("currency"), find("billingaccountid")
        self._credits, self._credit_sum = find("credits"), find(*_CREDIT_SUMS)
        self._used = find("usagestarttime"), find("usageendtime")
        self._month, self._kind = find("invoicemonth"), find("costtype")
        self._service = find("servicedescription"), find("serviceid")
        self._sku = find("skudescription"), find("skuid")
        self._project = find("projectid")
        self._region = find("locationregion", "locationlocation"), find("locationzone")
        self._resource = find("resourceglobalname", "resourcename"), find("resourcename")
        self._quantity, self._unit = find("usageamount"), find("usageunit")
        self._priced = find("usageamountinpricingunits"), find("usagepricingunit")
        self._list = find("costatlist")
        self._labels, self._system = find("labels"), find("systemlabels")

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a row: cost and credits together."""
        net = EXACT.add(self.amount(cells, self._cost), self._credit(cells))
        start, end, billing_start, billing_end = self._periods(cells)
        sku, service = self.text(cells, self._sku[0]), self.text(cells, self._service[0])
        kind = self.text(cells, self._kind).casefold()
        system = self._pairs(cells, self._system)
        return Charge(
            provider="gcp",
            account=self.account(cells, self._account),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=end,
            currency=self.currency(cells, self._currency),
            billed=net,
            effective=net,
            category=self._category(kind),
            commitment_id=self._commitment(sku),
            service=class_of(sku, service) if kind in ("", "regular") else ServiceClass.OTHER,
            service_name=service,
            resource_id=self.text(cells, *self._resource),
            resource_name=self.text(cells, self._resource[1]),
            sku=system.get("compute.googleapis.com/machine_spec", "") or sku or self.text(cells, self._sku[1]),
            region=self.text(cells, self._region[0]),
            zone=self.text(cells, self._region[1]),
            sub_account=self.text(cells, self._project),
            list_cost=self.measure(cells, self._list),
            pricing_quantity=self.measure(cells, self._priced[0]),
            pricing_unit=self.text(cells, self._priced[1]),
            consumed_quantity=self.measure(cells, self._quantity),
            consumed_unit=self.text(cells, self._unit),
            pricing_category="dynamic" if "preemptible" in sku.casefold() or "spot" in sku.casefold() else "standard",
            frequency="usage-based",
            tags={**self._pairs(cells, self._labels), **system},
            description=sku,
            file=self.manner.file,
            row=row,
        )

    def _commitment(self, sku: str) -> str:
        """The fee of a commitment, which names no resource. What it covers has its own price off as a credit."""
        if not sku.startswith("Commitment"):
            return ""
        self.note(
            "fees of commitments stand on lines of their own, not at the usage that they cover: "
            "[cost] idle may share them out"
        )
        return sku

    def _category(self, kind: str) -> ChargeCategory:
        found = _CATEGORIES.get(kind)
        if found is None:
            self.note(f"cost_type {kind[:40]!r} is not known; taken as usage")
        return found or ChargeCategory.USAGE

    def _credit(self, cells: list[str]) -> Decimal:
        """All credits of a row: a list of objects as JSON, or their sum in a column."""
        text = cells[self._credits].strip()
        if NOTHING.get(text, text) in ("", "[]", "{}"):
            return self.number(cells, self._credit_sum) or _ZERO
        if text[0] not in "[{":
            return decimal_of(text, comma=self.manner.comma) or _ZERO
        try:
            total = _ZERO
            for amount in _amounts(text):
                total = EXACT.add(total, decimal_of(amount) or _ZERO)
        except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            raise RowError(f"credits cannot be read: {text[:60]!r}") from error
        return total

    def _periods(self, cells: list[str]) -> tuple[datetime, datetime, datetime, datetime]:
        start, end = self.time(cells, self._used[0]), self.time(cells, self._used[1])
        month = self.text(cells, self._month)
        if month:
            billing_start, billing_end = pacific_month(month)
        elif start is not None:
            self.note("no invoice month: taken as the calendar month of the usage")
            billing_start, billing_end = month_around(start)
        else:
            raise RowError("neither an invoice month nor a usage time")
        if start is None:
            start, end = billing_start, billing_end
        if end is not None and end < start:
            raise RowError("usage ends before it starts")
        return start, end or start, billing_start, billing_end

    def _pairs(self, cells: list[str], place: int) -> Mapping[str, str]:
        return self.tags(cells, place)

    def hint(self, cells: list[str]) -> Hint:
        """The cost without its credits."""
        told = self.told(cells, (self._cost,), self._currency, self._account, len(self.columns))
        try:
            start = pacific_month(self.text(cells, self._month))[0]
        except ValueError:
            return told
        return Hint(told.amount, told.currency, told.account, start)


def _amounts(text: str) -> list[str]:
    """The amounts as written: of JSON, or of the Python that pandas and its like write for a list."""
    try:
        found = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        return _python_amounts(text)
    return [str(item["amount"]) for item in ([found] if isinstance(found, dict) else found)]


def _python_amounts(text: str) -> list[str]:
    if len(text) > _LONGEST_LIST:
        raise ValueError("too long")
    tree = ast.parse(text, mode="eval").body
    amounts: list[str] = []
    for item in tree.elts if isinstance(tree, ast.List) else [tree]:
        if not isinstance(item, ast.Dict):
            raise TypeError("no object")
        named = {key.value: value for key, value in zip(item.keys, item.values, strict=True) if _is_text(key)}
        written = ast.get_source_segment(text, named["amount"]) or ""
        amounts.append(written.strip("'\""))
    return amounts


def _is_text(key: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


GCP = Format(
    name="gcp",
    title="Google Cloud billing export",
    needs=(("cost",), ("billingaccountid",), ("usagestarttime", "invoicemonth"), ("skuid", "skudescription")),
    lacks=("billedcost", "metercategory"),
    reader=GcpReader,
    money=("cost",),
    times=("usagestarttime", "usageendtime"),
)
