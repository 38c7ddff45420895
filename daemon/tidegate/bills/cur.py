"""AWS Cost and Usage Reports: legacy (CSV and Parquet) and 2.0; slash and snake-case headers are one.

https://docs.aws.amazon.com/cur/latest/userguide/. The effective cost by line item type is that of AWS' own Cloud
Intelligence Dashboards and of focus_converters, with their missing case: refunds of a savings plan's upfront fee.
Where costs are net of discounts, all parts of a commitment are, so that used and unused add up to what was paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tidegate.bills.cells import EXACT
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import month_around
from tidegate.bills.words import class_of
from tidegate.model.charge import Charge, ChargeCategory, CommitmentStatus, ServiceClass

_ZERO = Decimal(0)
_SHARE = Decimal("1e-18")
_COST = "lineitemunblendedcost"
_NET = "lineitemnetunblendedcost"
_CATEGORIES = {
    "Usage": ChargeCategory.USAGE,
    "DiscountedUsage": ChargeCategory.USAGE,
    "SavingsPlanCoveredUsage": ChargeCategory.USAGE,
    "SavingsPlanNegation": ChargeCategory.CREDIT,
    "SavingsPlanRecurringFee": ChargeCategory.PURCHASE,
    "SavingsPlanUpfrontFee": ChargeCategory.PURCHASE,
    "RIFee": ChargeCategory.PURCHASE,
    "Fee": ChargeCategory.PURCHASE,
    "Tax": ChargeCategory.TAX,
    "Credit": ChargeCategory.CREDIT,
    "Refund": ChargeCategory.CREDIT,
    "BundledDiscount": ChargeCategory.CREDIT,
    "EdpDiscount": ChargeCategory.CREDIT,
    "PrivateRateDiscount": ChargeCategory.CREDIT,
    "RiVolumeDiscount": ChargeCategory.CREDIT,
    "SppDiscount": ChargeCategory.CREDIT,
    "DistributorDiscount": ChargeCategory.CREDIT,
}
_FREQUENCY = {
    "SavingsPlanRecurringFee": "recurring",
    "RIFee": "recurring",
    "SavingsPlanUpfrontFee": "one-time",
    "Fee": "one-time",
}
_DISCOUNTS = {kind for kind in _CATEGORIES if kind.endswith("Discount")}
_USED = {"DiscountedUsage", "SavingsPlanCoveredUsage"}
_TAG_PREFIXES = {
    "resourceTags/": "",
    "resource_tags_user_": "user:",
    "resource_tags_aws_": "aws:",
    "resource_tags_": "",
}


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the columns are."""

    kind: int
    cost: int
    net: int
    sp_effective: int
    net_sp_effective: int
    sp_commitment: int
    sp_used: int
    sp_accrued: tuple[int, int]
    """What of the plan's upfront and recurring fees falls to the period ..."""
    net_sp_accrued: tuple[int, int]
    """... and the same after discounts."""
    sp_arn: int
    ri_effective: int
    net_ri_effective: int
    ri_unused_upfront: int
    ri_unused_fee: int
    net_ri_unused_upfront: int
    net_ri_unused_fee: int
    ri_arn: int


class CurReader(Cells):
    """One file."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._p = _Places(
            kind=find("lineitemlineitemtype"),
            cost=find(_COST),
            net=find(_NET),
            sp_effective=find("savingsplansavingsplaneffectivecost"),
            net_sp_effective=find("savingsplannetsavingsplaneffectivecost"),
            sp_commitment=find("savingsplantotalcommitmenttodate"),
            sp_used=find("savingsplanusedcommitment"),
            sp_accrued=(
                find("savingsplanamortizedupfrontcommitmentforbillingperiod"),
                find("savingsplanrecurringcommitmentforbillingperiod"),
            ),
            net_sp_accrued=(
                find("savingsplannetamortizedupfrontcommitmentforbillingperiod"),
                find("savingsplannetrecurringcommitmentforbillingperiod"),
            ),
            sp_arn=find("savingsplansavingsplanarn"),
            ri_effective=find("reservationeffectivecost"),
            net_ri_effective=find("reservationneteffectivecost"),
            ri_unused_upfront=find("reservationunusedamortizedupfrontfeeforbillingperiod"),
            ri_unused_fee=find("reservationunusedrecurringfee"),
            net_ri_unused_upfront=find("reservationnetunusedamortizedupfrontfeeforbillingperiod"),
            net_ri_unused_fee=find("reservationnetunusedrecurringfee"),
            ri_arn=find("reservationreservationarn"),
        )
        self._netted = False
        self._account, self._user = find("billpayeraccountid"), find("lineitemusageaccountid")
        self._currency = find("lineitemcurrencycode")
        self._billing = find("billbillingperiodstartdate"), find("billbillingperiodenddate")
        self._used = find("lineitemusagestartdate"), find("lineitemusageenddate")
        self._interval, self._bill_type = find("identitytimeinterval"), find("billbilltype")
        self._invoice, self._resource = find("billinvoiceid"), find("lineitemresourceid")
        self._usage_type, self._operation = find("lineitemusagetype"), find("lineitemoperation")
        self._product, self._description = find("lineitemproductcode"), find("lineitemlineitemdescription")
        self._instance, self._family = find("productinstancetype"), find("productproductfamily")
        self._region = find("productregioncode", "productregion")
        self._zone, self._unit = find("lineitemavailabilityzone"), find("pricingunit", "lineitempricingunit")
        self._quantity, self._list = find("lineitemusageamount"), find("pricingpublicondemandcost")
        self._tag_map, self._product_map = find("resourcetags"), find("product")
        self._tag_columns = [(key, place) for key, place in columns.prefixed(_TAG_PREFIXES) if place != self._tag_map]

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a line item."""
        kind = self.text(cells, self._p.kind)
        billed = self._billed(cells, kind)
        start, end, billing_start, billing_end = self._periods(cells)
        usage_type, product = self.text(cells, self._usage_type), self.text(cells, self._product)
        instance = self.text(cells, self._instance) or self._of_product(cells, "instance_type")
        commitment = self.text(cells, self._p.sp_arn, self._p.ri_arn)
        description = self.text(cells, self._description)
        return Charge(
            provider="aws",
            account=self.account(cells, self._account),
            billing_start=billing_start,
            billing_end=billing_end,
            start=start,
            end=end,
            currency=self.currency(cells, self._currency),
            billed=billed,
            effective=self._effective(cells, kind, billed),
            category=self._category(kind, self.text(cells, self._bill_type)),
            service=self._class(usage_type, self.text(cells, self._family), product, kind),
            service_name=product,
            resource_id=self.text(cells, self._resource) or (commitment if kind in _FREQUENCY else ""),
            resource_type=self.text(cells, self._family),
            sku=instance or usage_type,
            region=self.text(cells, self._region) or self._of_product(cells, "region_code"),
            zone=self.text(cells, self._zone),
            sub_account=self.text(cells, self._user),
            list_cost=self.measure(cells, self._list),
            pricing_quantity=self.measure(cells, self._quantity),
            pricing_unit=self.text(cells, self._unit),
            consumed_quantity=self.measure(cells, self._quantity) if kind != "Tax" else None,
            consumed_unit=self.text(cells, self._unit),
            pricing_category="committed" if commitment else "dynamic" if "SpotUsage" in usage_type else "standard",
            frequency=_FREQUENCY.get(kind, "usage-based"),
            commitment_id=commitment,
            commitment_status=CommitmentStatus.USED if kind in _USED else self._unused(kind),
            tags=self._tags_of(cells),
            description=description,
            invoice_id=self.text(cells, self._invoice),
            file=self.manner.file,
            row=row,
        )

    def look(self, sample: Iterable[Sequence[str]]) -> None:
        """Whether net costs are filled in: CUR 2.0 has their column without them too."""
        net = self._p.net
        self._netted = any(net < len(cells) and self.text(cells, net) for cells in sample)

    def _billed(self, cells: list[str], kind: str) -> Decimal:
        """What the invoice takes: net of discounts where the report has net costs (only discounted accounts do)."""
        net = self.number(cells, self._p.net)
        if net is None:
            if self._netted and kind in _DISCOUNTS:
                self.note("discounts without a net cost count 0, for the others' net costs have them in them")
                return _ZERO
            return self.amount(cells, self._p.cost)
        if net != self.number(cells, self._p.cost):
            self.note("net costs differ from unblended ones: the net ones count, as on the invoice")
        return net

    def _effective(self, cells: list[str], kind: str, billed: Decimal) -> Decimal:
        """The accrued cost by the type of the line item."""
        p = self._p
        if kind == "SavingsPlanCoveredUsage":
            return self._first(cells, billed, p.net_sp_effective, p.sp_effective)
        if kind == "DiscountedUsage":
            return self._first(cells, billed, p.net_ri_effective, p.ri_effective)
        if kind == "SavingsPlanRecurringFee":  # what covered usage has not taken of the commitment
            return self._unused_plan(cells, billed)
        if kind in ("SavingsPlanNegation", "SavingsPlanUpfrontFee"):
            return _ZERO
        if kind == "RIFee":
            upfront = self._first(cells, _ZERO, p.net_ri_unused_upfront, p.ri_unused_upfront)
            return EXACT.add(upfront, self._first(cells, _ZERO, p.net_ri_unused_fee, p.ri_unused_fee))
        paid_before = (kind == "Fee" and cells[p.ri_arn]) or (kind == "Refund" and cells[p.sp_arn])
        return _ZERO if paid_before else billed

    def _unused_plan(self, cells: list[str], billed: Decimal) -> Decimal:
        """What of a savings plan covered nothing; after discounts where the covered usage's cost is.

        The report has no net figure of it: the unused part is taken in the proportion of the plan's net fee to its fee.
        """
        p = self._p
        unused = EXACT.subtract(self._or_zero(cells, p.sp_commitment), self._or_zero(cells, p.sp_used))
        fee, net = self._total(cells, p.sp_accrued), self._total(cells, p.net_sp_accrued)
        if not (fee and net):
            fee, net = self._or_zero(cells, p.cost), billed
        if not fee or fee == net:
            return unused
        return EXACT.divide(EXACT.multiply(unused, net), fee).quantize(_SHARE, context=EXACT).normalize(EXACT)

    def _total(self, cells: list[str], places: tuple[int, int]) -> Decimal:
        return EXACT.add(self._or_zero(cells, places[0]), self._or_zero(cells, places[1]))

    def _first(self, cells: list[str], otherwise: Decimal, *places: int) -> Decimal:
        found = (self.number(cells, place) for place in places)
        return next((number for number in found if number is not None), otherwise)

    def _or_zero(self, cells: list[str], place: int) -> Decimal:
        return self.number(cells, place) or _ZERO

    def _unused(self, kind: str) -> CommitmentStatus:
        return CommitmentStatus.UNUSED if kind in ("SavingsPlanRecurringFee", "RIFee") else CommitmentStatus.NONE

    def _category(self, kind: str, bill_type: str) -> ChargeCategory:
        if bill_type == "Refund":
            return ChargeCategory.CREDIT
        found = _CATEGORIES.get(kind)
        if found is None:
            self.note(f"line item type {kind[:40]!r} is not known; taken as usage")
        return found or ChargeCategory.USAGE

    @staticmethod
    def _class(usage_type: str, family: str, product: str, kind: str) -> ServiceClass:
        if kind == "Tax":
            return ServiceClass.OTHER
        return class_of(usage_type, family, product)

    def _periods(self, cells: list[str]) -> tuple[datetime, datetime, datetime, datetime]:
        """The usage period, for a tax row's interval is one day where its usage is the month; then the bill's."""
        start, end = self.time(cells, self._used[0]), self.time(cells, self._used[1])
        billing_start, billing_end = self.time(cells, self._billing[0]), self.time(cells, self._billing[1])
        if start is None:
            begins, _, ends = self.text(cells, self._interval).partition("/")
            start = self.moment(begins, self._interval) or billing_start
            end = self.moment(ends, self._interval) or billing_end if begins else billing_end
        if start is None:
            raise RowError("neither a usage period nor a billing period")
        if billing_start is None:
            billing_start, billing_end = month_around(start)
        end = end or start
        if end < start:
            raise RowError("the usage period ends before it starts")
        return start, end, billing_start, billing_end or month_around(billing_start)[1]

    def _of_product(self, cells: list[str], key: str) -> str:
        return self.tags(cells, self._product_map).get(key, "") if cells[self._product_map] else ""

    def _tags_of(self, cells: list[str]) -> Mapping[str, str]:
        if not self._tag_columns:
            return self.tags(cells, self._tag_map)
        found = {key: cells[place] for key, place in self._tag_columns if cells[place]}
        return {**found, **self.tags(cells, self._tag_map)} if found else self.tags(cells, self._tag_map)

    def hint(self, cells: list[str]) -> Hint:
        """The net cost, else the unblended one."""
        return self.told(cells, (self._p.net, self._p.cost), self._currency, self._account, self._billing[0])


CUR = Format(
    name="aws-cur",
    title="AWS Cost and Usage Report",
    needs=(("lineitemlineitemtype",), (_COST,), ("lineitemusagestartdate", "identitytimeinterval")),
    reader=CurReader,
    money=(_COST, _NET),
    times=("lineitemusagestartdate", "lineitemusageenddate", "billbillingperiodstartdate", "billbillingperiodenddate"),
)
