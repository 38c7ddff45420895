"""Shares of money that add up exactly: whole numbers of atoms, the remainder to the largest fractions.

An atom is 1e-60, the smallest amount that an import takes. Shares are whole multiples of 1e-24, unless the amount
itself is finer. So sums of lines are sums of the rows, whatever the order, and no line for our own rounding is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

_SCALE = 60
_UNIT = int(10**_SCALE)
_GRAIN = int(10 ** (_SCALE - 24))
EXACT = Context(prec=400)
"""Sums and products of amounts are made under it."""


def atoms(amount: Decimal) -> int:
    """An amount in atoms; raises ValueError when it is finer than an atom, or no number."""
    if not amount.is_finite():
        raise ValueError(f"{amount} is no amount")
    numerator, denominator = amount.as_integer_ratio()
    scaled, rest = divmod(numerator * _UNIT, denominator)
    if rest:
        raise ValueError(f"{amount} is finer than 1e-{_SCALE}")
    return scaled


def amount(count: int) -> Decimal:
    """Atoms as an amount, without trailing zeros."""
    return trimmed(Decimal(count).scaleb(-_SCALE, EXACT))


def trimmed(found: Decimal) -> Decimal:
    """The same number without trailing zeros, in plain notation."""
    plain = found.normalize(EXACT)
    return plain.quantize(Decimal(1), context=EXACT) if plain == plain.to_integral_value() else plain


def grain_of(total: int) -> int:
    """What shares of a total are multiples of."""
    return 1 if total % _GRAIN else _GRAIN


def split(total: int, weights: Sequence[int], grain: int | None = None) -> list[int]:
    """Shares by weight, by the largest remainder, ties to the first; negative totals mirror positive ones.

    Raises ValueError when there is no weight to split by.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("there is nothing to split by")
    if len(weights) == 1:
        return [total]
    grain = grain or grain_of(total)
    sign, units = (-1, -total // grain) if total < 0 else (1, total // grain)
    parts = [divmod(units * weight, whole) for weight in weights]
    shares = [share for share, _ in parts]
    missing = units - sum(shares)
    if missing:
        order = sorted(range(len(parts)), key=lambda index: (-parts[index][1], index))
        for index in order[:missing]:
            shares[index] += 1
    return [sign * share * grain for share in shares]


def between(total: int, start: int, end: int, length: int) -> int:
    """What of a total, spread evenly over `length`, falls between two moments of it: adds up over any partition."""
    if length <= 0 or (start <= 0 and end >= length):
        return total
    grain = grain_of(total)
    sign, units = (-1, -total // grain) if total < 0 else (1, total // grain)
    return sign * grain * (units * end // length - units * start // length)


def shown(amounts: Sequence[Decimal], places: int = 2) -> list[Decimal]:
    """Amounts rounded for the eye so that they add up to their rounded sum: 100/3 is 33.34, 33.33, 33.33."""
    counts = [atoms(each) for each in amounts]
    grain = 10 ** (_SCALE - places)
    total = sum(counts)
    sign = -1 if total < 0 else 1
    rounded = sign * ((2 * abs(total) + grain) // (2 * grain))
    floors = [sign * (sign * count // grain) for count in counts]
    rests = [sign * (count - floor * grain) for count, floor in zip(counts, floors, strict=True)]
    missing = sign * (rounded - sum(floors))
    for index in sorted(range(len(counts)), key=lambda at: (-rests[at], at))[:missing]:
        floors[index] += sign
    return [Decimal(floor).scaleb(-places, EXACT) for floor in floors]
