"""Azure cost exports: actual and amortised, in every family of headers, with names in other languages.

https://learn.microsoft.com/azure/cost-management-billing/automate/understand-usage-details-fields. Actual and amortised
are two datasets for the same usage: the first fills the billed ledger, the second the effective one, neither both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from tidegate.bills.cells import NumberError, decimal_of
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import DAY, inclusive_end, month_around
from tidegate.bills.words import PRICING, class_of
from tidegate.model.charge import Charge, ChargeCategory, CommitmentStatus, Ledger, ServiceClass

_COSTS = ("costinbillingcurrency", "cost", "pretaxcost", "billingpretaxtotal", "extendedcost")
_DATES = ("date", "usagedatetime", "usagedate")
_BILLING_START, _BILLING_END = ("billingperiodstartdate",), ("billingperiodenddate",)
_CATEGORIES: Mapping[str, ChargeCategory] = {
    "": ChargeCategory.USAGE,
    "usage": ChargeCategory.USAGE,
    "unusedreservation": ChargeCategory.USAGE,
    "unusedsavingsplan": ChargeCategory.USAGE,
    "purchase": ChargeCategory.PURCHASE,
    "refund": ChargeCategory.CREDIT,
    "credit": ChargeCategory.CREDIT,
    "tax": ChargeCategory.TAX,
    "roundingadjustment": ChargeCategory.ADJUSTMENT,
    "adjustment": ChargeCategory.ADJUSTMENT,
}
_COMMITTED = ("reservation", "savingsplan")


class AzureReader(Cells):
    """One file of one of the two datasets."""

    amortised = False

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._cost, self._date = find(*_COSTS), find(*_DATES)
        self._currency = find("billingcurrency", "billingcurrencycode", "currency", "pricingcurrency")
        self._account = find("billingaccountid", "enrollmentnumber", "billingaccountname", "accountownerid")
        self._billing = find(*_BILLING_START), find(*_BILLING_END)
        self._sub_account = find("subscriptionid", "subscriptionguid")
        self._kind, self._pricing = find("chargetype"), find("pricingmodel")
        self._resource = find("resourceid", "instanceid", "instancename")
        self._resource_name, self._resource_type = find("resourcename"), find("consumedservice", "resourcetype")
        self._category = find("metercategory"), find("metersubcategory"), find("metername")
        self._family = find("servicefamily")
        self._region = find("resourcelocation", "resourceregion", "location", "meterregion")
        self._zone = find("availabilityzone")
        self._quantity, self._unit = find("quantity", "usagequantity"), find("unitofmeasure")
        self._list, self._frequency = find("paygcostinbillingcurrency"), find("frequency")
        self._commitment = find("benefitid", "reservationid"), find("reservationid")
        self._tag, self._more = find("tags"), find("additionalinfo")
        self._invoice, self._product = find("invoiceid"), find("product", "productname")

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a row."""
        cost, kind = self.amount(cells, self._cost), self.text(cells, self._kind).casefold().replace(" ", "")
        start, end, billing_start, billing_end = self._periods(cells)
        meter = [self.text(cells, place) for place in self._category]
        more = self.tags(cells, self._more)
        model = self.text(cells, self._pricing).casefold().replace(" ", "")
        return Charge(
            provider="azure",
            account=self.account(cells, self._account, self._sub_account),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=end,
            currency=self.currency(cells, self._currency),
            billed=None if self.amortised else cost,
            effective=cost if self.amortised else None,
            category=self._kind_of(kind),
            service=self._class(meter, self.text(cells, self._family), kind),
            service_name=meter[0],
            resource_id=self.text(cells, self._resource),
            resource_name=more.get("VMName", "") or more.get("VmName", "") or self.text(cells, self._resource_name),
            resource_type=self.text(cells, self._resource_type),
            sku=more.get("ServiceType", "") or meter[2] or self.text(cells, self._product),
            region=self.text(cells, self._region),
            zone=self.text(cells, self._zone),
            sub_account=self.text(cells, self._sub_account),
            list_cost=self.measure(cells, self._list),
            consumed_quantity=self.measure(cells, self._quantity),
            consumed_unit=self.text(cells, self._unit),
            pricing_category=PRICING.get(model, model),
            frequency={"usagebased": "usage-based", "onetime": "one-time"}.get(
                found := self.text(cells, self._frequency).casefold().replace("-", ""), found
            ),
            commitment_id=self.text(cells, *self._commitment),
            commitment_status=self._status(kind, model),
            tags=self.tags(cells, self._tag),
            description=self.text(cells, self._product),
            invoice_id=self.text(cells, self._invoice),
            file=self.manner.file,
            row=row,
        )

    def _kind_of(self, kind: str) -> ChargeCategory:
        found = _CATEGORIES.get(kind)
        if found is None:
            self.note(f"ChargeType {kind[:40]!r} is not known; taken as usage")
        return found or ChargeCategory.USAGE

    @staticmethod
    def _class(meter: Sequence[str], family: str, kind: str) -> ServiceClass:
        if kind in ("tax", "roundingadjustment"):
            return ServiceClass.OTHER
        return class_of(*meter[:1], family, *meter[1:])

    def _status(self, kind: str, model: str) -> CommitmentStatus:
        if kind.startswith("unused"):
            return CommitmentStatus.UNUSED
        return (
            CommitmentStatus.USED
            if self.amortised and model in _COMMITTED and kind == "usage"
            else CommitmentStatus.NONE
        )

    def _periods(self, cells: list[str]) -> tuple[datetime, datetime, datetime, datetime]:
        """The day, and the billing period, whose end is named inclusively."""
        start = self.time(cells, self._date)
        billing_start, last = self.time(cells, self._billing[0]), self.time(cells, self._billing[1])
        if billing_start is None:
            if start is None:
                raise RowError("neither a date nor a billing period")
            billing_start, billing_end = month_around(start)
        else:
            billing_end = inclusive_end(last) if last else month_around(billing_start)[1]
        if start is None:
            self.note("no date: taken as the whole billing period")
            return billing_start, billing_end, billing_start, billing_end
        return start, start + DAY, billing_start, billing_end

    def hint(self, cells: list[str]) -> Hint:
        """The cost."""
        return self.told(cells, (self._cost,), self._currency, self._account, self._billing[0])


class AmortisedReader(AzureReader):
    """The amortised dataset."""

    amortised = True


def kind_of(columns: Columns, sample: Sequence[Sequence[str]], hints: Sequence[str]) -> Format:
    """Actual or amortised: by rows that only one of them has, then by the words of folders, file and manifest."""
    kind, model, cost = columns.find("chargetype"), columns.find("pricingmodel"), columns.find(*_COSTS)
    last = len(columns)
    for row in sample:
        if len(row) < last:
            continue
        cells = [*row, ""]
        if (found := _telling(cells[kind], cells[model], cells[cost])) is not None:
            return found
    for word in reversed(hints):  # the manifest's word, the file's name, then its folders: the nearest that decides
        amortised, actual = "amorti" in word.casefold(), "actual" in word.casefold()
        if amortised != actual:
            return AMORTIZED if amortised else ACTUAL
    return ACTUAL


def _telling(kind: str, model: str, cost: str) -> Format | None:
    """Unused rows and covered usage with a cost are amortised; covered usage without, and purchases, are actual."""
    folded, committed = kind.casefold(), model.casefold().replace(" ", "") in _COMMITTED
    if folded.startswith("unused"):
        return AMORTIZED
    if not committed:
        return None
    if folded == "purchase":
        return ACTUAL
    try:
        amount = decimal_of(cost) or Decimal(0)
    except NumberError:
        return None
    return AMORTIZED if folded == "usage" and amount else None


_NEEDS = (
    _COSTS,
    (*_DATES, *_BILLING_START),
    ("metercategory", "meterid"),
    ("subscriptionid", "subscriptionguid", "subscriptionname"),
)
ACTUAL = Format(
    name="azure-actual",
    title="Azure actual cost",
    needs=_NEEDS,
    reader=AzureReader,
    money=_COSTS,
    times=(*_DATES, *_BILLING_START, *_BILLING_END),
    ledgers=frozenset({Ledger.BILLED}),
)
AMORTIZED = Format(
    name="azure-amortized",
    title="Azure amortised cost",
    needs=_NEEDS,
    reader=AmortisedReader,
    money=_COSTS,
    times=ACTUAL.times,
    ledgers=frozenset({Ledger.EFFECTIVE}),
)
