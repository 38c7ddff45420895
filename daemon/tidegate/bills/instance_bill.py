"""What the Chinese clouds' instance bills share: days in UTC+8, payable amounts, headers in either language. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from tidegate.bills.cells import EXACT
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Hint, Manner, RowError
from tidegate.bills.moments import CHINA, DAY, month_around, month_of
from tidegate.bills.words import class_of
from tidegate.model.charge import NO_CURRENCY, Charge, ChargeCategory, ServiceClass

Names = tuple[str, ...]
_SECONDS = {
    "": 1,
    "秒": 1,
    "second": 1,
    "seconds": 1,
    "小时": 3600,
    "hour": 3600,
    "天": 86_400,
    "日": 86_400,
    "day": 86_400,
}
_MONTHS = {"月": 1, "month": 1, "months": 1, "年": 12, "year": 12, "years": 12}
_LENGTH = re.compile(r"(\d+)(?:\.0*)?\s*个?\s*(\D*)")
"""A service period such as `1`, `1个月` or `12 Month`."""
_FROM_TO = re.compile(r"(\d{4}\D.*?)\s*[-~–—至到]\s*(\d{4}[-/.年].*)", re.DOTALL)
"""Both ends in one cell: `2026-03-23 22:00:00 GMT+08:00-2026-03-23 23:00:00 GMT+08:00`."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The names of one provider's columns, in either language, as `columns.plain` makes them."""

    payable: Names
    """What is owed after discounts; coupons and vouchers that pay it are payment, no cost."""
    gross: Names
    off: tuple[Names, ...]
    """What is taken off `gross` where no payable amount stands."""
    cycle: Names
    account: Names
    owner: Names
    product: Names
    kind: Names
    """Of transaction: usage, order, refund, adjustment."""
    mode: Names
    instance: Names
    name: Names
    spec: Names
    item: Names
    """The part of the instance that is charged: a disk, bandwidth."""
    start: Names
    end: Names
    paid_at: Names
    region: Names = ("region", "地域", "区域", "regionname")
    zone: Names = ("zone", "availabilityzone", "可用区", "az")
    tag: Names = ("tag", "tags", "标签", "实例标签", "资源标签")
    currency: Names = ("currency", "币种", "货币", "currencycode")
    quantity: Names = ("usage", "用量", "使用量", "count")
    unit: Names = ("usageunit", "用量单位", "使用量单位", "unit")
    service_period: Names = ()
    service_period_unit: Names = ()
    order: Names = ()


class InstanceBillReader(Cells):
    """One file; a provider sets its names and its words for kinds."""

    zone = CHINA
    provider: ClassVar[str] = ""
    names: ClassVar[Headers]
    kinds: ClassVar[Mapping[str, ChargeCategory]] = {}
    """By a part of the word for the kind, folded."""
    prepaid: ClassVar[Names] = (
        "subscription",
        "prepaid",
        "pre-pay",
        "monthly",
        "yearly",
        "预付费",
        "订阅",
        "包年",
        "包月",
    )

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find, names = columns.find, self.names
        self._payable, self._gross = find(*names.payable), find(*names.gross)
        self._off = [find(*each) for each in names.off]
        self._cycle, self._account, self._owner = find(*names.cycle), find(*names.account), find(*names.owner)
        self._product, self._kind, self._mode = find(*names.product), find(*names.kind), find(*names.mode)
        self._instance, self._name, self._spec = find(*names.instance), find(*names.name), find(*names.spec)
        self._item, self._start, self._end = find(*names.item), find(*names.start), find(*names.end)
        self._paid, self._region, self._zone = find(*names.paid_at), find(*names.region), find(*names.zone)
        self._tag, self._currency = find(*names.tag), find(*names.currency)
        self._quantity, self._unit = find(*names.quantity), find(*names.unit)
        self._period, self._period_unit = find(*names.service_period), find(*names.service_period_unit)

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a row."""
        amount = self.cost(cells)
        mode = self.text(cells, self._mode).casefold()
        prepaid = any(word in mode for word in self.prepaid)
        start, end, billing_start, billing_end = self._periods(cells, prepaid=prepaid)
        product, item = self.text(cells, self._product), self.text(cells, self._item)
        category = self.category(self.text(cells, self._kind).casefold(), product)
        currency = self.currency(cells, self._currency)
        return Charge(
            provider=self.provider,
            account=self.account(cells, self._account, self._owner),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=end,
            currency=self.assumed_currency() if currency == NO_CURRENCY else currency,
            billed=amount,
            effective=amount,
            category=category,
            service=ServiceClass.OTHER if category is ChargeCategory.TAX else class_of(item, product),
            service_name=product,
            resource_id=self.text(cells, self._instance),
            resource_name=self.text(cells, self._name),
            sku=self.text(cells, self._spec) or item,
            region=self.text(cells, self._region),
            zone=self.text(cells, self._zone),
            sub_account=self.text(cells, self._owner),
            list_cost=self.measure(cells, self._gross),
            consumed_quantity=self.measure(cells, self._quantity),
            consumed_unit=self.text(cells, self._unit),
            pricing_category="standard",
            frequency="recurring" if prepaid else "usage-based",
            tags=self.tags(cells, self._tag),
            description=item,
            file=self.manner.file,
            row=row,
        )

    def cost(self, cells: list[str]) -> Decimal:
        """The payable amount; where none stands, the gross one less what is taken off, if the bill says that."""
        payable = self.number(cells, self._payable)
        if payable is not None:
            return payable
        width = len(self.columns)
        if self._payable < width and all(place == width for place in self._off):
            return self.amount(cells, self._payable)  # a list price is no cost: refused
        total = self.amount(cells, self._gross)
        for place in self._off:
            total = EXACT.subtract(total, self.number(cells, place) or Decimal(0))
        return total

    def category(self, kind: str, product: str) -> ChargeCategory:
        """By the provider's words; tax by its product's name."""
        if "税" in product or product.casefold() in ("tax", "vat"):
            return ChargeCategory.TAX
        return next((found for word, found in self.kinds.items() if word in kind), ChargeCategory.USAGE)

    def assumed_currency(self) -> str:
        """Of a file without one: these consoles write yuan, and it is said."""
        self.note("no currency is named: taken as CNY (--currency says another)")
        return "CNY"

    def _periods(self, cells: list[str], *, prepaid: bool) -> tuple[datetime, datetime, datetime, datetime]:
        """What is used or prepaid for; then the cycle, a month of UTC+8."""
        start, until = self._span(cells, self._start)
        if start is None:
            start, until = self._span(cells, self._paid)
        cycle = self.text(cells, self._cycle)
        if cycle:
            billing_start, billing_end = month_of(cycle[:7], CHINA)
        elif start is not None:
            billing_start, billing_end = month_around(start, CHINA)
        else:
            raise RowError("neither a billing cycle nor a time")
        if start is None:
            return billing_start, billing_end, billing_start, billing_end
        end = until or self._end_of(cells, start, prepaid=prepaid)
        if end < start:
            raise RowError("the usage period ends before it starts")
        return start, end, billing_start, billing_end

    def _span(self, cells: list[str], place: int) -> tuple[datetime | None, datetime | None]:
        """A moment, or both ends of a period that one cell holds."""
        found = _FROM_TO.fullmatch(cells[place].strip())
        if found is None:
            return self.time(cells, place), None
        return self.moment(found[1], place), self.moment(found[2], place)

    def _end_of(self, cells: list[str], start: datetime, *, prepaid: bool) -> datetime:
        """A prepaid service lasts its service period; else the end that stands there; a day alone is that day."""
        if prepaid and (served := self._served(cells, start)) is not None:
            return served
        end = self.time(cells, self._end)
        if end is not None:
            return end
        written = self.text(cells, self._start, self._paid)
        return start + DAY if ":" not in written else start

    def _served(self, cells: list[str], start: datetime) -> datetime | None:
        """When the service period ends, None where none can be read."""
        found = _LENGTH.fullmatch(self.text(cells, self._period))
        if found is None:
            return None
        length, unit = int(found[1]), (self.text(cells, self._period_unit) or found[2].strip()).casefold()
        try:
            if unit in _SECONDS:
                return start + timedelta(seconds=length * _SECONDS[unit])
            return _months_later(start, length * _MONTHS[unit]) if unit in _MONTHS else None
        except (ValueError, OverflowError):  # longer than the calendar
            return None

    def hint(self, cells: list[str]) -> Hint:
        """The payable amount, else the gross one."""
        told = self.told(cells, (self._payable, self._gross), self._currency, self._account, len(self.columns))
        try:
            start = month_of(self.text(cells, self._cycle)[:7], CHINA)[0]
        except ValueError:
            start = None
        return Hint(told.amount, "CNY" if told.currency == NO_CURRENCY else told.currency, told.account, start)


def _months_later(start: datetime, months: int) -> datetime:
    """The same time of day and day of the month, or the month's last day where that does not exist."""
    local = start.astimezone(CHINA)
    months += local.year * 12 + local.month - 1
    first = local.replace(year=months // 12, month=months % 12 + 1, day=1)
    last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - DAY
    return first.replace(day=min(local.day, last.day))
