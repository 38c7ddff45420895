"""A charge cut by hours or days: spread evenly over its period, so that the parts of any partition add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tidegate.cost.atoms import atoms, between, split
from tidegate.model.activity import HOUR_SECONDS, SLOTS, Activity
from tidegate.model.charge import Charge

Amounts = tuple[int | None, int | None]
"""Atoms billed and effective; None: the ledger has no such figure."""
HOUR = HOUR_SECONDS * 1_000_000
DAY = 24 * HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_AGREES = Decimal("0.1")


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def amounts_of(charge: Charge, *, stand_in: bool) -> Amounts:
    """Both ledgers in atoms; `stand_in`: the effective one cannot be used, so the billed one is taken for it."""
    billed = None if charge.billed is None else atoms(charge.billed)
    if stand_in:
        return billed, billed
    return billed, None if charge.effective is None else atoms(charge.effective)


def slices(charge: Charge, amounts: Amounts, span: tuple[int, int], width: int) -> Iterator[tuple[int, Amounts]]:
    """(hour or day since 1970, its part) for each that the charge touches within the span, microseconds both."""
    start, end = micros(charge.start), micros(charge.end)
    if start >= end:
        if span[0] <= start < span[1]:
            yield start // width, amounts
        return
    first, last = max(start, span[0]), min(end, span[1])
    if first >= last:
        return
    length = end - start
    for number in range(first // width, -(-last // width)):
        begin, until = max(first, number * width) - start, min(last, (number + 1) * width) - start
        yield number, _part(amounts, begin, until, length)


def _part(amounts: Amounts, start: int, end: int, length: int) -> Amounts:
    if start == 0 and end == length:
        return amounts
    billed, effective = amounts
    first = None if billed is None else between(billed, start, end, length)
    if effective == billed:
        return first, first
    return first, None if effective is None else between(effective, start, end, length)


def alive(charge: Charge, amounts: Amounts, host: str, activity: Activity) -> list[tuple[int, Amounts]] | None:
    """By the hours in which the host was seen, where the bill says that it paid for about as many; else None.

    So the row of a day on which a machine ran for seven hours is carried by those seven hours.
    """
    quantity = charge.consumed_quantity or charge.pricing_quantity
    unit = (charge.consumed_unit or charge.pricing_unit).casefold()
    whole = activity.since <= charge.start and charge.end <= activity.until
    if not whole or quantity is None or quantity <= 0 or not unit.startswith(("hour", "hrs")):
        return None
    hours = range(micros(charge.start) // HOUR, -(-micros(charge.end) // HOUR))
    seen = [activity.seen.get((host, hour), 0).bit_count() for hour in hours]
    lasted, length = Decimal(sum(seen)) / SLOTS, Decimal(micros(charge.end) - micros(charge.start)) / HOUR
    if len(seen) < 2 or not seen or lasted >= length or abs(lasted - quantity) > _AGREES * quantity:
        return None
    return _by_weight(hours, seen, amounts)


def _by_weight(hours: Sequence[int], weights: Sequence[int], amounts: Amounts) -> list[tuple[int, Amounts]]:
    billed, effective = (None if each is None else split(each, weights) for each in amounts)
    return [
        (hour, (billed[at] if billed else None, effective[at] if effective else None))
        for at, hour in enumerate(hours)
        if weights[at]
    ]
