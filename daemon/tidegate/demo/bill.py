"""The bill of the played day as a provider would send it: preliminary, invoiced, corrected a month later. Pure.

FOCUS rows by the hour for every machine, network and storage, a tax, a credit, and a machine that nobody knows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.demo.configuration import BASE, CURRENCY

COLUMNS = (
    "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart",
    "ChargePeriodEnd", "ChargeCategory", "ChargeClass", "BilledCost", "EffectiveCost", "ResourceId", "ServiceCategory",
    "ServiceName", "SkuId", "RegionId", "ProviderName", "PricingCategory", "InvoiceId",
)  # fmt: skip
ACCOUNT, STRANGER = "demo-account", "i-0unknown"
BASE_RATE, BURST_RATE = Decimal("2.03"), Decimal("3.52")
"""What the provider really takes for a GPU hour: not what the configuration says."""
BURST_HOURS = range(7, 23)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DemoBill:
    """The day, the machines with their GPUs, and what the bill says of them."""

    midnight: datetime
    hosts: Mapping[str, int]

    def preliminary(self) -> str:
        """While the month is open: no invoice yet, and no tax."""
        return _csv(self._usage(""))

    def invoiced(self) -> str:
        """When the month is closed."""
        return _csv([*self._usage("INV-1"), *self._month("INV-1")])

    def corrected(self) -> str:
        """A correction of the closed month, on the next month's invoice."""
        row = self._row(_arn(f"{BASE}-1"), Decimal("-1.37"), "Compute", 0, 24)
        following = _month_of(self.midnight + timedelta(days=32))
        start, end = following, _month_of(following + timedelta(days=32))
        return _csv([row | {"ChargeClass": "Correction", "InvoiceId": "INV-2"} | _period(start, end)])

    def total(self) -> Decimal:
        """What all of it comes to, corrections included."""
        texts = (self.invoiced(), self.corrected())
        rows = (row for text in texts for row in csv.DictReader(io.StringIO(text)))
        return sum((Decimal(row["EffectiveCost"]) for row in rows), Decimal(0))

    def _usage(self, invoice: str) -> Iterator[dict[str, str]]:
        for host, gpus in self.hosts.items():
            base = host.startswith(BASE)
            for hour in range(24) if base else BURST_HOURS:
                cost = (BASE_RATE if base else BURST_RATE) * gpus
                row = self._row(_arn(host), cost, "Compute", hour, hour + 1)
                yield row | {"InvoiceId": invoice, "PricingCategory": "Committed" if base else "Standard"}
        yield self._row("", Decimal("2.4"), "Networking", 0, 24) | {"InvoiceId": invoice}
        yield self._row("models-bucket", Decimal("1.15"), "Storage", 0, 24) | {"InvoiceId": invoice}
        yield self._row(STRANGER, Decimal("6.60"), "Compute", 3, 5) | {"InvoiceId": invoice}

    def _month(self, invoice: str) -> Iterator[dict[str, str]]:
        tax = self._row("", Decimal("21.07"), "Other", 0, 24) | {"ChargeCategory": "Tax"}
        credit = self._row("", Decimal("-5"), "Other", 0, 24) | {"ChargeCategory": "Credit"}
        yield from ({**row, "InvoiceId": invoice} for row in (tax, credit))

    def _row(self, resource: str, cost: Decimal, category: str, first: int, last: int) -> dict[str, str]:
        month = _month_of(self.midnight)
        return {
            "BillingAccountId": ACCOUNT, "BillingCurrency": CURRENCY, "ChargeCategory": "Usage",
            "ChargePeriodStart": _text(self.midnight + first * HOUR),
            "ChargePeriodEnd": _text(self.midnight + last * HOUR),
            "BilledCost": str(cost), "EffectiveCost": str(cost), "ResourceId": resource, "ServiceCategory": category,
            "ServiceName": "Demo Compute" if category == "Compute" else f"Demo {category}", "SkuId": "demo.gpu",
            "RegionId": "demo-1", "ProviderName": "Demo",
            **_period(month, _month_of(month + timedelta(days=32))),
        }  # fmt: skip


def _csv(rows: Iterator[dict[str, str]] | list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _arn(host: str) -> str:
    return f"arn:demo:compute:demo-1:{ACCOUNT}:instance/{host.upper()}"


def _period(start: datetime, end: datetime) -> dict[str, str]:
    return {"BillingPeriodStart": _text(start), "BillingPeriodEnd": _text(end)}


def _month_of(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
