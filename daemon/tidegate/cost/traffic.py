"""Pools' costs by traffic class and tenant, by the tokens that the gateway counted for each; the rest keeps no name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal

from tidegate.cost.atoms import amount, atoms, split
from tidegate.model.activity import TrafficShare
from tidegate.model.allocation import Line, PoolTokens, TrafficTokens

_WHOLE = 1000
Owner = tuple[str, str]
"""Traffic class and tenant."""


def by_traffic(lines: Iterable[Line], shares: Sequence[TrafficShare], tokens: Sequence[PoolTokens]) -> tuple[Line, ...]:
    """Split the amounts of pools; the sum stays. Lines of no pool, and GPU time, stay as they are.

    Tokens of a pool and day that nobody is named for are nobody's share. Where the gateway counted more than the
    engines did, its own sum is the whole.
    """
    weights = _weights(shares, tokens)
    found: list[Line] = []
    for line in lines:
        mine = weights.get((line.place.day.isoformat(), line.place.pool), {}) if line.place.currency else {}
        found += _split(line, mine) if mine else [line]
    return tuple(found)


def tokens_by_traffic(shares: Sequence[TrafficShare], tokens: Sequence[PoolTokens]) -> tuple[PoolTokens, ...]:
    """Split what pools delivered by the same shares; the sum stays. Input and output are in the pool's proportion."""
    weights = _weights(shares, tokens)
    found: list[PoolTokens] = []
    for each in tokens:
        mine = weights.get((each.day.isoformat(), each.pool), {})
        found += _split_tokens(each, mine) if mine else [each]
    return tuple(found)


def _split_tokens(tokens: PoolTokens, weights: Mapping[Owner, int]) -> Iterable[PoolTokens]:
    owners = sorted(owner for owner, weight in weights.items() if weight)
    given = [weights[owner] for owner in owners]
    known = {each.name: getattr(tokens, each.name) for each in fields(tokens)}
    counts = zip(*(_parts(each, given) for each in (tokens.prompt, tokens.cached, tokens.output)), strict=True)
    for (traffic, tenant), (prompt, cached, output) in zip(owners, counts, strict=True):
        yield TrafficTokens(
            **known | {"prompt": prompt, "cached": cached, "output": output, "traffic": traffic, "tenant": tenant}
        )


def _weights(
    shares: Sequence[TrafficShare], tokens: Sequence[PoolTokens]
) -> Mapping[tuple[str, str], Mapping[Owner, int]]:
    found: dict[tuple[str, str], dict[Owner, int]] = {}
    for share in shares:
        mine = found.setdefault((share.day, share.pool), {})
        owner = share.traffic, share.tenant
        mine[owner] = mine.get(owner, 0) + int(share.tokens * _WHOLE)
    for each in tokens:
        if (named := found.get((each.day.isoformat(), each.pool))) is not None:
            rest = int((each.prompt + each.output) * _WHOLE) - sum(named.values())
            if rest > 0:
                named["", ""] = named.get(("", ""), 0) + rest
    return {key: mine for key, mine in found.items() if any(mine.values())}


def _split(line: Line, weights: Mapping[Owner, int]) -> Iterable[Line]:
    owners = sorted(owner for owner, weight in weights.items() if weight)
    given = [weights[owner] for owner in owners]
    first, second = (_parts(each, given) for each in (line.billed, line.effective))
    for (traffic, tenant), billed, effective in zip(owners, first, second, strict=True):
        yield Line(line.place._replace(traffic=traffic, tenant=tenant), billed, effective)


def _parts(whole: Decimal | None, weights: Sequence[int]) -> list[Decimal | None]:
    if whole is None:
        return [None] * len(weights)
    return [amount(part) for part in split(atoms(whole), weights)]
