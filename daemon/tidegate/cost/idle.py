"""Idle policies: who is given the money for GPUs that nothing held. Each conserves the sum of every currency exactly.

Where nobody has a weight the money stays where it is: no division by zero, and nothing vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from tidegate.cost.atoms import amount, atoms, split
from tidegate.model.activity import PoolFacts
from tidegate.model.allocation import IDLE, IdlePolicy, Line, LineKind, Place

Weights = Mapping[str, int]
_HELD = frozenset({LineKind.BUSY, LineKind.RESIDENT})


def distribute(lines: Sequence[Line], policy: IdlePolicy, pools: Mapping[str, PoolFacts]) -> tuple[Line, ...]:
    """The lines with idle money given away; GPU time stays what it was."""
    if policy is IdlePolicy.SEPARATE:
        return tuple(lines)
    weigh = _weigher(lines, policy, pools)
    found: list[Line] = []
    for line in lines:
        mine = line.place.kind in IDLE and not line.place.pool and line.place.currency
        weights = weigh(line.place) if mine else {}
        found += _shared(line, weights, pools) if weights else [line]
    return tuple(found)


def _shared(line: Line, weights: Weights, pools: Mapping[str, PoolFacts]) -> Iterable[Line]:
    names = sorted(weights)
    given = [weights[name] for name in names]
    first = [None] * len(names) if line.billed is None else split(atoms(line.billed), given)
    second = [None] * len(names) if line.effective is None else split(atoms(line.effective), given)
    for name, billed, effective in zip(names, first, second, strict=True):
        facts = pools.get(name, PoolFacts())
        place = line.place._replace(
            kind=LineKind.SHARED, pool=name, service=facts.service, model=facts.model, side=facts.side,
            method=f"{line.place.kind.value}",
        )  # fmt: skip
        yield Line(place, None if billed is None else amount(billed), None if effective is None else amount(effective))


def _weigher(lines: Sequence[Line], policy: IdlePolicy, pools: Mapping[str, PoolFacts]) -> Callable[[Place], Weights]:
    if policy is IdlePolicy.TO_POOL_OWNER:
        return lambda place: _owner(place.host, pools)
    if policy is IdlePolicy.TO_RESIDENT:
        held: dict[tuple[object, str], dict[str, int]] = {}
        for line in lines:
            if line.place.kind in _HELD and line.place.pool and line.gpu_seconds > 0:
                _count(held.setdefault((line.place.day, line.place.host), {}), line.place.pool, line.gpu_seconds)
        return lambda place: held.get((place.day, place.host), {})
    busy: dict[str, dict[str, int]] = {}
    for line in lines:
        cost = line.effective if line.effective is not None else line.billed
        if line.place.kind is LineKind.BUSY and line.place.pool and cost is not None:
            _count(busy.setdefault(line.place.currency, {}), line.place.pool, cost)
    positive = {
        currency: {name: weight for name, weight in found.items() if weight > 0} for currency, found in busy.items()
    }
    return lambda place: positive.get(place.currency, {})


def _count(found: dict[str, int], pool: str, figure: Decimal) -> None:
    found[pool] = found.get(pool, 0) + int(figure.scaleb(12))


def _owner(host: str, pools: Mapping[str, PoolFacts]) -> Weights:
    """The pool that lists the host first; of several the first by name."""
    ranked = sorted((facts.hosts.index(host), name) for name, facts in pools.items() if host and host in facts.hosts)
    return {ranked[0][1]: 1} if ranked else {}
