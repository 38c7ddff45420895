"""Our own allocation as FOCUS 1.3 rows: an origin charge is what one account was charged for one resource on one day.

Each row is a share of it: `AllocatedResourceId` says whose, `AllocatedMethodDetails` by what ratio; the ratios of an
origin charge add up to 1. Amounts are exact, so a sum over the rows is the sum of the bill.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal

from tidegate.cost.atoms import atoms, split
from tidegate.model.allocation import Line, Place

COLUMNS = (
    "AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags",
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory",
    "ChargePeriodEnd", "ChargePeriodStart", "EffectiveCost", "ResourceId", "ServiceCategory", "x_Estimated",
)  # fmt: skip
"""`x_Estimated` is ours: true where no bill speaks yet."""
_SERVICE = {"compute": "Compute", "network": "Networking", "storage": "Storage"}
_PARTS = 10**12
Origin = tuple[date, date | None, str, str, str, str, str, bool]


def focus_rows(lines: Iterable[Line]) -> Iterator[dict[str, str]]:
    """One row a line with an amount; an empty text is null."""
    origins: dict[Origin, list[Line]] = {}
    for line in lines:
        if line.place.currency:
            origins.setdefault(_origin(line.place), []).append(line)
    for _, mine in sorted(origins.items(), key=lambda item: str(item[0])):
        for line, ratio in zip(mine, _ratios(mine), strict=True):
            yield _row(line, ratio)


def _origin(place: Place) -> Origin:
    return (
        place.day,
        place.billing,
        place.account,
        place.host or place.resource,
        place.charge,
        place.category,
        place.currency,
        place.estimated,
    )


def _ratios(lines: Sequence[Line]) -> list[Decimal]:
    weights = [
        abs(atoms(line.effective if line.effective is not None else line.billed or Decimal(0))) for line in lines
    ]
    return [Decimal(part).scaleb(-12) for part in split(_PARTS, weights if any(weights) else [1] * len(lines), 1)]


def _row(line: Line, ratio: Decimal) -> dict[str, str]:
    place = line.place
    tags = {
        "pool": place.pool, "service": place.service, "model": place.model, "side": place.side,
        "kind": place.kind.value, "class": place.traffic, "tenant": place.tenant,
    }  # fmt: skip
    details = {"Elements": [{"AllocatedRatio": f"{ratio:f}", "UsageUnit": "GPU seconds", "x_Key": place.method}]}
    return {
        "AllocatedMethodDetails": json.dumps(details),
        "AllocatedMethodId": f"tidegate:{place.method or 'direct'}",
        "AllocatedResourceId": place.pool or place.kind.value,
        "AllocatedResourceName": place.model or place.pool or place.kind.value,
        "AllocatedTags": json.dumps({key: value for key, value in tags.items() if value}, ensure_ascii=False),
        "BilledCost": "" if line.billed is None else f"{line.billed:f}",
        "BillingAccountId": place.account,
        "BillingCurrency": place.currency,
        "BillingPeriodEnd": _moment(_month_after(place.billing)),
        "BillingPeriodStart": _moment(place.billing),
        "ChargeCategory": place.category.capitalize(),
        "ChargePeriodEnd": _moment(place.day + timedelta(days=1)),
        "ChargePeriodStart": _moment(place.day),
        "EffectiveCost": "" if line.effective is None else f"{line.effective:f}",
        "ResourceId": place.host or place.resource,
        "ServiceCategory": _SERVICE.get(place.charge, "Other"),
        "x_Estimated": "true" if place.estimated else "false",
    }


def _moment(day: date | None) -> str:
    return "" if day is None else f"{day.isoformat()}T00:00:00Z"


def _month_after(day: date | None) -> date | None:
    """The end of a billing period that begins with a month; of others the lines do not say it."""
    if day is None or day.day != 1:
        return None
    return (day + timedelta(days=32)).replace(day=1)
