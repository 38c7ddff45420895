"""From a share to the decision that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidegate.decide.explain import Move, may_change_at, sentence
from tidegate.decide.group import Sized, measure_of
from tidegate.decide.guard import Hold
from tidegate.decide.load import used_signals
from tidegate.decide.pools import Share, wanted_of
from tidegate.model.decision import Decision, Limit
from tidegate.model.fleet import PoolName
from tidegate.model.memory import PoolMemory
from tidegate.model.policy import Mode


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a decision says beside the share: what was wanted, and whether its actions are held back."""

    wanted: int
    mode: Mode
    withheld: bool
    memory: PoolMemory
    now: datetime


def decision_of(sized: Sized, share: Share, conclusion: Conclusion) -> Decision:
    """The decision of one pool, with everything that bound it."""
    supply, wanted = share.supply, conclusion.wanted
    holds = tuple(_holds(sized, share, conclusion))
    move = Move(supply.pool.name, supply.count, share.target)
    signals = used_signals((*supply.ready, *supply.leaving), measure_of(sized.group.service))
    return Decision(
        pool=supply.pool.name,
        at=conclusion.now,
        current=supply.count,
        ready=len(supply.ready),
        starting=len(supply.starting),
        leaving=len(supply.leaving),
        wanted=wanted,
        target=share.target,
        reason=sentence(sized.demand.because, move, holds),
        limits=tuple(hold.limit for hold in holds),
        signals=signals,
        mode=conclusion.mode,
        may_change_at=may_change_at(holds),
    )


def wanted_by_pool(sized: Sized) -> dict[PoolName, int]:
    """What the policy asked of each pool before any guard."""
    wanted = wanted_of(sized.supplies, sized.demand.wish)
    return {supply.pool.name: count for supply, count in zip(sized.supplies, wanted, strict=True)}


def _holds(sized: Sized, share: Share, conclusion: Conclusion) -> Iterator[Hold]:
    pool, wanted, target = share.supply.pool, conclusion.wanted, share.target
    for hold in sized.guarded.holds:
        if hold.limit is Limit.MISSING_DATA or wanted != target:
            yield hold
    for limit in share.limits:
        yield Hold(limit, conclusion.memory.failed_until if limit is Limit.START_FAILED else None)
    if wanted < target == pool.min:
        yield Hold(Limit.MIN)
    if wanted > target == pool.max:
        yield Hold(Limit.MAX)
    if conclusion.withheld:
        yield Hold(Limit.MODE)
