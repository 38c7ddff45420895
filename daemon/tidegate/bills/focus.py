"""FOCUS 1.0-preview to 1.4, and 0.5 by its old names: the open format that most providers can export.

https://focus.finops.org/focus-specification/. The version is told by its columns alone: whatever name is there is
read. CoreWeave's export is FOCUS without amounts: quantities priced by contract (`model/price.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from operator import itemgetter

from tidegate.bills.cells import EXACT, PLACEHOLDERS, tags_of
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Format, Hint, Manner, RowError
from tidegate.bills.moments import month_around
from tidegate.bills.words import CATEGORIES, PRICING, STATUSES, focus_class, provider_of
from tidegate.model.charge import Charge, ChargeCategory, CommitmentStatus, Priced

_BILLED = ("billedcost",)
_EFFECTIVE = ("effectivecost", "amortizedcost")
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "category": ("chargecategory", "chargetype"),
    "class": ("chargeclass",),
    "subcategory": ("chargesubcategory",),
    "frequency": ("chargefrequency",),
    "pricing_category": ("pricingcategory",),
    "resource_id": ("resourceid",),
    "resource_name": ("resourcename",),
    "resource_type": ("resourcetype",),
    "service_category": ("servicecategory",),
    "service_name": ("servicename",),
    "sku": ("skuid", "skupriceid", "skumeter"),
    "sku_price": ("skupriceid",),
    "sku_details": ("skupricedetails",),
    "region": ("regionid", "region", "regionname"),
    "region_name": ("regionname",),
    "zone": ("availabilityzone",),
    "sub_account": ("subaccountid",),
    "pricing_unit": ("pricingunit",),
    "consumed_unit": ("consumedunit", "usageunit"),
    "commitment_id": ("commitmentdiscountid",),
    "commitment_status": ("commitmentdiscountstatus",),
    "description": ("chargedescription",),
    "invoice_id": ("invoiceid",),
    "provider": ("providername", "provider", "serviceprovidername"),
    "provider_2": ("serviceprovidername", "publishername", "publisher"),
    "issuer": ("invoiceissuername", "invoiceissuer", "hostprovidername"),
}
_PRIOR = "no contract price for {sku!r}{where}: name a price file with --prices, or `tidegate price import`"


class FocusReader(Cells):
    """One file."""

    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._texts = itemgetter(*(find(*names) for names in _TEXTS.values()))
        self._billed, self._effective, self._list = find(*_BILLED), find(*_EFFECTIVE), find("listcost")
        self._currency, self._account = find("billingcurrency"), find("billingaccountid")
        self._billing = find("billingperiodstart"), find("billingperiodend")
        self._charged = find("chargeperiodstart"), find("chargeperiodend")
        self._quantities = find("pricingquantity"), find("consumedquantity", "usagequantity")
        self._tag = find("tags")

    def read(self, cells: list[str], row: int) -> Charge:
        """The charge of a row."""
        (
            category, klass, subcategory, frequency, pricing, resource_id, resource_name, resource_type,
            service_category, service, sku, sku_price, details, region, region_name, zone, sub_account, pricing_unit,
            consumed_unit, commitment, status, description, invoice, provider, provider_2, issuer,
        ) = map(PLACEHOLDERS.get, texts := self._texts(cells), texts)  # fmt: skip
        start, end, billing_start, billing_end = self._periods(cells)
        number = self.number
        charge = Charge(
            provider=provider_of(provider, provider_2, issuer), account=self.account(cells, self._account),
            billing_start=billing_start, billing_end=billing_end, start=start, end=end,
            currency=self.currency(cells, self._currency), billed=number(cells, self._billed),
            effective=number(cells, self._effective), category=self._category(category),
            correction=klass[:4].casefold() == "corr",
            service=focus_class(service_category, pricing_unit or consumed_unit, description), service_name=service,
            resource_id=resource_id, resource_name=resource_name, resource_type=resource_type,
            sku=(_instance_type(details) if details else "") or sku or sku_price, region=region or region_name,
            zone=zone, sub_account=sub_account, list_cost=self.measure(cells, self._list),
            pricing_quantity=self.measure(cells, self._quantities[0]), pricing_unit=pricing_unit,
            consumed_quantity=self.measure(cells, self._quantities[1]), consumed_unit=consumed_unit,
            pricing_category=PRICING.get(pricing.casefold(), pricing.casefold()), frequency=frequency.casefold(),
            commitment_id=commitment,
            commitment_status=STATUSES.get((status or subcategory).casefold(), CommitmentStatus.NONE),
            tags=self.tags(cells, self._tag), description=description, invoice_id=invoice, file=self.manner.file,
            row=row,
        )  # fmt: skip
        if charge.billed is None or charge.effective is None:
            return self._incomplete(charge)
        return charge

    def _category(self, text: str) -> ChargeCategory:
        found = CATEGORIES.get(text.casefold())
        if found is None:
            self.note(f"ChargeCategory {text[:40]!r} is not one of FOCUS; taken as usage")
        return found or ChargeCategory.USAGE

    def _periods(self, cells: list[str]) -> tuple[datetime, datetime, datetime, datetime]:
        """The charge period and the billing period; the one stands in where the other is missing."""
        start, end = self.time(cells, self._charged[0]), self.time(cells, self._charged[1])
        billing_start, billing_end = self.time(cells, self._billing[0]), self.time(cells, self._billing[1])
        if billing_start is None:
            if start is None:
                raise RowError("neither a charge period nor a billing period")
            billing_start, billing_end = month_around(start)
        if billing_end is None:
            billing_end = month_around(billing_start)[1]
        if start is None:
            self.note("no charge period: taken as the whole billing period")
            start, end = billing_start, billing_end
        if end is None:
            end = start
        if end < start or billing_end <= billing_start:
            raise RowError("a period ends before it starts")
        return start, end, billing_start, billing_end

    def _incomplete(self, charge: Charge) -> Charge:
        """A row without one of the two amounts: right where the file has no such column, else noted or priced."""
        if charge.billed is None and charge.effective is None:
            return priced(charge, self.manner) if len(self.manner.prices) else _no_amount()
        missing = "BilledCost" if charge.billed is None else "EffectiveCost"
        if self.columns.has(*(_BILLED if charge.billed is None else _EFFECTIVE)):
            self.note(f"{missing} is empty: the row counts in the other ledger alone")
        return charge

    def hint(self, cells: list[str]) -> Hint:
        """The billed amount, else the effective one."""
        return self.told(cells, (self._billed, self._effective), self._currency, self._account, self._billing[0])


class QuantityReader(FocusReader):
    """A file without amounts: every row is priced by contract."""

    def _incomplete(self, charge: Charge) -> Charge:
        return priced(charge, self.manner)


def priced(charge: Charge, manner: Manner) -> Charge:
    """The charge with quantity times contract price as both amounts; raises RowError where nobody said a price."""
    quantity = charge.consumed_quantity if charge.consumed_quantity is not None else charge.pricing_quantity
    if quantity is None:
        raise RowError("neither an amount nor a quantity")
    names = (charge.sku, charge.resource_type, charge.service_name, charge.description)
    found = next(
        (
            price
            for name in names
            if name and (price := manner.prices.find(charge.provider, name, charge.region, charge.start))
        ),
        None,
    )
    if found is None:
        sku = next(filter(None, names), "")
        raise RowError(_PRIOR.format(sku=sku, where=f" in {charge.region}" if charge.region else ""))
    amount = EXACT.multiply(quantity, found.amount)
    read = {name: getattr(charge, name) for name in Charge.__slots__}
    return Priced(**read | {"billed": amount, "effective": amount, "currency": found.currency})


def _no_amount() -> Charge:
    raise RowError("BilledCost and EffectiveCost are empty")


@lru_cache(maxsize=8192)
def _instance_type(details: str) -> str:
    """The instance type of SkuPriceDetails, which names a host best."""
    found = tags_of(details)
    return found.get("InstanceType", "") or found.get("x_InstanceType", "")


FOCUS = Format(
    name="focus",
    title="FOCUS 0.5 to 1.4",
    needs=(("billedcost", "effectivecost", "amortizedcost"), ("chargeperiodstart", "billingperiodstart"),
           ("chargecategory", "chargetype", "billedcost")),
    reader=FocusReader,
    money=(*_BILLED, *_EFFECTIVE),
    times=("billingperiodstart", "billingperiodend", "chargeperiodstart", "chargeperiodend"),
)  # fmt: skip
COREWEAVE = Format(
    name="coreweave",
    title="CoreWeave usage (FOCUS without amounts, priced by contract)",
    needs=(("chargeperiodstart",), ("consumedquantity", "pricingquantity", "usagequantity")),
    lacks=("billedcost", "effectivecost", "amortizedcost"),
    reader=QuantityReader,
    money=(),
    times=FOCUS.times,
)
