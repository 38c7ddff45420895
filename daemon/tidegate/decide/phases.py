"""Prefill and decode of one service, decided together: both or neither at zero, a ratio kept, one budget shared.

A request needs both phases, so a size of one without the other is capacity that serves nobody. The band is kept by
raising the smaller side, never by taking from the larger. Where the budget does not hold both growths each gets its
proportion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tidegate.decide.group import Sized
from tidegate.decide.guard import Hold
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolRole

_ROUNDING = 1e-9


def together(sized: Sequence[Sized], gpus_left: int | None) -> list[Sized]:
    """The groups of all services, those of two phases matched; the order stays."""
    found = list(sized)
    for place, prefill in enumerate(found):
        if prefill.role is PoolRole.PREFILL:
            partner = next((at for at, one in enumerate(found) if _are_one_service(prefill, one)), None)
            if partner is not None:
                found[place], found[partner] = _matched(prefill, found[partner], gpus_left)
    return found


def _are_one_service(prefill: Sized, other: Sized) -> bool:
    return other.role is PoolRole.DECODE and other.group.service.name == prefill.group.service.name


def _matched(prefill: Sized, decode: Sized, gpus_left: int | None) -> tuple[Sized, Sized]:
    ratio, few, many = prefill.group.service.ratio, prefill.guarded.target, decode.guarded.target
    if few or many:
        few, many = max(1, few), max(1, many)
        few = max(few, math.ceil(ratio.low * many - _ROUNDING))
        many = max(many, math.ceil(few / ratio.high - _ROUNDING))
    prefill, decode = _raised(prefill, few), _raised(decode, many)
    wanted = _growth(prefill) + _growth(decode)
    if gpus_left is None or wanted <= gpus_left:
        return prefill, decode
    return _rationed(prefill, decode, gpus_left)


def _rationed(prefill: Sized, decode: Sized, gpus: int) -> tuple[Sized, Sized]:
    """Each its proportion of too few GPUs, after the first replica of a side that has none; no side without that."""
    first = _first(prefill), _first(decode)
    rest, wanted = gpus - sum(first), _growth(prefill) + _growth(decode) - sum(first)
    if rest < 0:
        return _cut(prefill, 0), _cut(decode, 0)
    more = (_growth(prefill) - first[0]) * rest // wanted if wanted else 0
    prefill = _cut(prefill, first[0] + more)
    return prefill, _cut(decode, gpus - _growth(prefill))


def _first(sized: Sized) -> int:
    """The GPUs of its first replica, where it has none and wants one."""
    return sized.width if not sized.count and sized.guarded.target else 0


def _raised(sized: Sized, target: int) -> Sized:
    target = sized.bounds.clamp(target)
    if target == sized.guarded.target:
        return sized
    holds = (*sized.guarded.holds, Hold(Limit.RATIO))
    return replace(sized, guarded=replace(sized.guarded, target=target, holds=holds))


def _cut(sized: Sized, gpus: int) -> Sized:
    """No more growth than these GPUs hold."""
    target = min(sized.guarded.target, sized.count + gpus // sized.width)
    if target == sized.guarded.target or target < sized.count:
        return sized
    holds = (*sized.guarded.holds, Hold(Limit.BUDGET))
    return replace(sized, guarded=replace(sized.guarded, target=target, holds=holds))


def _growth(sized: Sized) -> int:
    """In GPUs."""
    return max(0, sized.guarded.target - sized.count) * sized.width
