"""Lines to the rows that people ask for: grouped by anything, each with its status, basis, method and unit cost.

Rows of one report add up to its total exactly, whatever they are grouped by: amounts are added, never rounded. A
currency is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, localcontext
from enum import StrEnum
from fractions import Fraction

from tidegate.cost.atoms import EXACT, trimmed
from tidegate.cost.day_status import together
from tidegate.cost.unit import Split, by_pools, by_ratio, by_request_time, unit_prices
from tidegate.model.allocation import CostPolicy, DayStatus, Line, LineKind, PoolTokens, TrafficTokens
from tidegate.model.cost_report import (
    BY_TRAFFIC,
    WITH_TOKENS,
    Ask,
    Basis,
    Dimension,
    Report,
    Row,
    Served,
    Tokens,
    UnitPrices,
)
from tidegate.model.money import CostState

_FIELDS = {Dimension.CLASS: "traffic"}
_MICRO = Decimal("1e-6")


@dataclass(slots=True)
class _Sums:
    lines: list[Line] = field(default_factory=list)
    tokens: list[PoolTokens] = field(default_factory=list)


def report(
    lines: Sequence[Line], tokens: Sequence[PoolTokens], days: Sequence[DayStatus], ask: Ask, policy: CostPolicy
) -> Report:
    """Group lines and tokens. `days`: the status of those that a bill speaks of; all others are estimated."""
    states = {each.day: each.state for each in days}
    touched = {line.place.day for line in lines}
    with localcontext(EXACT):
        rows = tuple(_rows(lines, tokens, ask, ask.by, states, policy))
        totals = tuple(_rows(lines, tokens, ask, (), states, policy))
    state = together({states.get(day, CostState.ESTIMATED) for day in touched})
    notes = tuple(dict.fromkeys(note for each in days for note in each.notes))
    return Report(rows, totals, state, notes)


def key_of(item: Line | PoolTokens, by: Sequence[Dimension]) -> tuple[str, ...]:
    """What a line, or tokens, belong to."""
    return tuple(_value(item, dimension) for dimension in by)


def _value(item: Line | PoolTokens, dimension: Dimension) -> str:
    day: date = item.place.day if isinstance(item, Line) else item.day
    if dimension is Dimension.DAY:
        return day.isoformat()
    if dimension is Dimension.WEEK:
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02}"
    if dimension is Dimension.MONTH:
        return f"{day:%Y-%m}"
    where: object = item.place if isinstance(item, Line) else item
    found = getattr(where, _FIELDS.get(dimension, dimension.value), "")
    return found.value if isinstance(found, StrEnum) else "" if found is None else str(found)


def _rows(
    lines: Sequence[Line],
    tokens: Sequence[PoolTokens],
    ask: Ask,
    by: Sequence[Dimension],
    states: Mapping[date, CostState],
    policy: CostPolicy,
) -> Iterable[Row]:
    groups = _grouped(lines, tokens if set(by) <= WITH_TOKENS else (), by)
    for (key, currency), sums in sorted(groups.items(), key=lambda item: item[0]):
        yield _row(dict(zip(by, key, strict=True)), currency, sums, ask, states, policy)


def _grouped(
    lines: Sequence[Line], tokens: Sequence[PoolTokens], by: Sequence[Dimension]
) -> dict[tuple[tuple[str, ...], str], _Sums]:
    """By key and currency. GPU time and tokens stand in each currency of their key."""
    groups: dict[tuple[tuple[str, ...], str], _Sums] = {}
    keyed: dict[tuple[str, ...], set[str]] = {}
    for line in lines:
        if currency := line.place.currency:
            key = key_of(line, by)
            keyed.setdefault(key, set()).add(currency)
            groups.setdefault((key, currency), _Sums()).lines.append(line)
    for line in lines:
        if not line.place.currency:
            for currency in keyed.get(key := key_of(line, by), {""}):
                groups.setdefault((key, currency), _Sums()).lines.append(line)
    for each in tokens:
        for currency in keyed.get(key := key_of(each, by), {""}):
            groups.setdefault((key, currency), _Sums()).tokens.append(each)
    return groups


def _row(
    key: Mapping[Dimension, str],
    currency: str,
    sums: _Sums,
    ask: Ask,
    states: Mapping[date, CostState],
    policy: CostPolicy,
) -> Row:
    amount: Decimal | None = None
    estimated, kinds, seconds = Decimal(0), dict[LineKind, Decimal](), dict[LineKind, Decimal]()
    held = Decimal(0)
    for line in sums.lines:
        kind, cost = line.place.kind, line.amount(ask.ledger)
        if line.gpu_seconds:
            seconds[kind] = seconds.get(kind, Decimal(0)) + line.gpu_seconds
            held += line.gpu_seconds if line.place.pool else 0
        if cost is not None:
            amount = cost + (amount or 0)
            kinds[kind] = kinds.get(kind, Decimal(0)) + cost
            estimated += cost if line.place.estimated else 0
    served = _served(sums.tokens)
    cost_of = _basis([line for line in sums.lines if line.place.pool or not BY_TRAFFIC & key.keys()], ask)
    days = {line.place.day for line in sums.lines}
    state = together({states.get(day, CostState.ESTIMATED) for day in days})
    return Row(
        key,
        currency,
        state,
        None if amount is None else trimmed(amount),
        trimmed(estimated),
        {kind: trimmed(cost) for kind, cost in kinds.items()},
        {kind: _hours(spent) for kind, spent in seconds.items()},
        _hours(held),
        served,
        None if cost_of is None else trimmed(cost_of),
        _prices(cost_of, served, sums, ask, policy),
    )


def _hours(seconds: Decimal) -> Decimal:
    return (seconds / 3600).quantize(_MICRO)


def _basis(lines: Sequence[Line], ask: Ask) -> Decimal | None:
    """What the unit cost of a row is taken over.

    Rows of a model, pool, class or tenant: what is theirs. All others, and the total: everything.
    Busy: without what was held idle.
    """
    kinds = {LineKind.BUSY, LineKind.SHARED} if ask.basis is Basis.BUSY else None
    amounts = [
        cost
        for line in lines
        if (cost := line.amount(ask.ledger)) is not None and (kinds is None or line.place.kind in kinds)
    ]
    return sum(amounts, Decimal(0)) if amounts else None


def _served(tokens: Sequence[PoolTokens]) -> Served | None:
    if not tokens:
        return None
    good: Decimal | None = Decimal(0)
    for each in tokens:
        share = each.attainment if each.prompt + each.output else Decimal(1)
        good = None if good is None or share is None else good + share * (each.prompt + each.output)
    return Served(
        sum((each.prompt for each in tokens), Decimal(0)),
        sum((min(each.cached, each.prompt) for each in tokens), Decimal(0)),
        sum((each.output for each in tokens), Decimal(0)),
        any(each.partial for each in tokens),
        good,
    )


def _prices(
    cost: Decimal | None, served: Served | None, sums: _Sums, ask: Ask, policy: CostPolicy
) -> UnitPrices | None:
    if cost is None or served is None:
        return None
    tokens = Tokens(Fraction(served.prompt - served.cached), Fraction(served.cached), Fraction(served.output))
    if ask.basis is Basis.GOODPUT:
        if not served.good:
            return None
        share = Fraction(served.good) / Fraction(served.delivered) if served.delivered else Fraction(0)
        tokens = Tokens(tokens.computed * share, tokens.cached * share, tokens.output * share)
    ratio = Fraction(policy.cached_ratio)
    return unit_prices(Fraction(cost), tokens, _division(sums, tokens, ask, policy), ratio)


def _division(sums: _Sums, tokens: Tokens, ask: Ask, policy: CostPolicy) -> Split | None:
    """The most trusted division between input and output that is known of a row; of a traffic class none is."""
    if any(isinstance(each, TrafficTokens) for each in sums.tokens):
        return None
    roles = {each.pool: each.role for each in sums.tokens}
    if roles and set(roles.values()) == {"prefill", "decode"}:
        parts = {"prefill": Fraction(0), "decode": Fraction(0)}
        for line in sums.lines:
            cost = line.amount(ask.ledger)
            if cost is not None and line.place.pool in roles:
                parts[roles[line.place.pool]] += Fraction(cost)
        if min(parts.values()) > 0:
            return by_pools(parts["prefill"], parts["decode"])
    prefill = [each.prefill_seconds for each in sums.tokens]
    decode = [each.decode_seconds for each in sums.tokens]
    if prefill and None not in prefill and None not in decode:
        spent = (sum((Fraction(each or 0) for each in phase), Fraction(0)) for phase in (prefill, decode))
        return by_request_time(*spent)
    if policy.output_ratio is not None:
        return by_ratio(tokens, Fraction(policy.output_ratio), Fraction(policy.cached_ratio))
    return None
