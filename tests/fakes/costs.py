"""Charges and activity for tests of cost: small days with hosts that serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

from tidegate.cost.atoms import EXACT
from tidegate.model.activity import EVERY_SLOT, Activity, PoolFacts, hour_of
from tidegate.model.allocation import Line, LineKind
from tidegate.model.charge import Charge, Ledger, ServiceClass
from tidegate.model.fleet import PoolName, ReplicaId
from tidegate.model.usage import Holding

DAY = datetime(2026, 11, 25, tzinfo=UTC)
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 12, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
POOLS = {
    "a": PoolFacts("chat", "model-a", "base", hosts=("gpu-1",)),
    "b": PoolFacts("code", "model-b", "burst", hosts=("gpu-2",)),
}


def charge(amount: str | None = "20", start: datetime = DAY, hours: float = 1, **more: Any) -> Charge:
    """A row of a bill; the effective amount is the billed one unless said otherwise."""
    billed = None if amount is None else Decimal(amount)
    said: dict[str, Any] = {
        "provider": "aws", "account": "acme", "billing_start": MONTH, "billing_end": NEXT_MONTH, "start": start,
        "end": start + hours * HOUR, "currency": "USD", "billed": billed, "effective": billed,
        "service": ServiceClass.COMPUTE, "resource_id": "gpu-1",
    }  # fmt: skip
    return Charge(**said | more)


def holding(pool: str, gpus: int, hours: float = 1, start: datetime = DAY, host: str = "gpu-1") -> Holding:
    """A replica that held GPUs."""
    return Holding(
        ReplicaId(f"{pool}-1"), PoolName(pool), gpus, start, start + hours * HOUR, Decimal(2), "USD", host=host
    )


def activity(
    holdings: Sequence[Holding] = (),
    hours: int = 24,
    since: datetime = DAY,
    *,
    gpus: Mapping[str, int] | None = None,
    dark: Iterable[tuple[str, int]] = (),
    busy: bool = True,
    **more: Any,
) -> Activity:
    """Hosts that were seen all the time but for the `dark` hours, whose pools worked all the time they held GPUs."""
    has = {"gpu-1": 8} if gpus is None else gpus
    first, unseen = hour_of(since), set(dark)
    span = range(first, first + hours)
    seen = {(host, hour): EVERY_SLOT for host in has for hour in span if (host, hour - first) not in unseen}
    worked = {(each.host, str(each.pool), hour): EVERY_SLOT for each in holdings for hour in span} if busy else {}
    return Activity(
        since, since + hours * HOUR, holdings, has, **{"pools": POOLS, "seen": seen, "worked": worked, **more}
    )


def total(lines: Iterable[Line], ledger: Ledger = Ledger.EFFECTIVE, currency: str = "USD") -> Decimal:
    """The exact sum of a ledger."""
    with localcontext(EXACT):
        mine = (line.amount(ledger) for line in lines if line.place.currency == currency)
        return sum((each for each in mine if each is not None), Decimal(0))


def by_kind(lines: Iterable[Line], ledger: Ledger = Ledger.EFFECTIVE) -> dict[tuple[LineKind, str], Decimal]:
    """Amounts by kind and pool."""
    found: dict[tuple[LineKind, str], Decimal] = {}
    with localcontext(EXACT):
        for line in lines:
            each = line.amount(ledger)
            if each is not None and line.place.currency:
                key = line.place.kind, line.place.pool
                found[key] = found.get(key, Decimal(0)) + each
    return found


def time_by_kind(lines: Iterable[Line]) -> dict[tuple[LineKind, str], Decimal]:
    """GPU seconds by kind and pool."""
    found: dict[tuple[LineKind, str], Decimal] = {}
    for line in lines:
        if line.gpu_seconds:
            key = line.place.kind, line.place.pool
            found[key] = found.get(key, Decimal(0)) + line.gpu_seconds
    return found
