"""From a share to the decision that explains itself: what was seen, what follows for the pool, what held it.

The reason is the one sentence that an operator reads at 03:00.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.decide.bounds import PoolBounds
from tidegate.decide.draft import Share
from tidegate.decide.group import Sized, read_by
from tidegate.decide.guard import Hold
from tidegate.decide.load import used_signals
from tidegate.decide.pools import wanted_of
from tidegate.model.decision import Decision, Limit
from tidegate.model.fleet import PoolName
from tidegate.model.memory import PoolMemory
from tidegate.model.policy import Mode

_WORDS = {
    Limit.MIN: "min allows no less",
    Limit.MAX: "max allows no more",
    Limit.COOLDOWN: "the cooldown of the last change",
    Limit.SCALE_IN_WINDOW: "more was wanted within the scale-in window",
    Limit.MISSING_DATA: "missing data never scales in",
    Limit.RESTART_GRACE: "the controller has not observed for long enough to scale in",
    Limit.NO_CAPACITY: "no free place for another replica",
    Limit.UNMANAGED: "the rest is not managed here and is never stopped",
    Limit.BASE_FIRST: "the base pool fills first",
    Limit.START_FAILED: "the last start failed",
    Limit.MODE: "the mode lets nothing be done",
    Limit.BUDGET: "the budget allows no more",
    Limit.STEP: "no more at once",
    Limit.FLAP: "the size has gone up and down often enough",
    Limit.SCHEDULE: "the schedule's bounds",
    Limit.MANUAL: "bounds set by hand",
    Limit.PAUSED: "paused by hand",
    Limit.PROOF: "one replica less would not meet the objective",
    Limit.SLO_INFEASIBLE: "single requests miss the objective by themselves, more replicas would not mend it",
    Limit.STUCK_QUEUE: "requests wait although replicas have room, more replicas would not mend it",
    Limit.RATIO: "the ratio of prefill to decode",
    Limit.HOLD: "replicas that are paid or held for longer",
    Limit.FLAVOUR: "a preferred flavour is passed over",
}


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a decision says beside the share: what was wanted, and whether its actions are held back."""

    wanted: int
    mode: Mode
    withheld: bool
    memory: PoolMemory
    bounds: PoolBounds
    now: datetime


def decision_of(sized: Sized, share: Share, conclusion: Conclusion) -> Decision:
    """The decision of one pool, with everything that bound it."""
    supply, wanted = share.supply, conclusion.wanted
    holds = tuple(_holds(sized, share, conclusion))
    move = _move(supply.pool.name, supply.count, share.target)
    signals = used_signals((*supply.ready, *supply.leaving), read_by(sized.group.service))
    return Decision(
        pool=supply.pool.name,
        at=conclusion.now,
        current=supply.count,
        ready=len(supply.ready),
        starting=len(supply.starting),
        leaving=len(supply.leaving),
        wanted=wanted,
        target=share.target,
        reason=_sentence(sized.demand.because, move, holds),
        limits=tuple(hold.limit for hold in holds),
        signals=signals,
        mode=conclusion.mode,
        may_change_at=_may_change_at(holds),
    )


def wanted_by_pool(sized: Sized) -> dict[PoolName, int]:
    """What the policy asked of each pool before any guard."""
    wanted = wanted_of(sized.supplies, sized.demand.wish)
    return {supply.pool.name: count for supply, count in zip(sized.supplies, wanted, strict=True)}


def _holds(sized: Sized, share: Share, conclusion: Conclusion) -> Iterator[Hold]:
    pool, wanted, target, memory = share.supply.pool, conclusion.wanted, share.target, conclusion.memory
    for hold in sized.guarded.holds:
        if hold.limit is Limit.MISSING_DATA or wanted != target:
            yield hold
    yield from (Hold(limit) for limit in sized.demand.limits)
    for limit in share.limits:
        yield _failed(memory, conclusion.now) if limit is Limit.START_FAILED else Hold(limit)
    if share.supply.lost and memory.back_offs and Limit.START_FAILED not in share.limits:
        yield _failed(memory, conclusion.now)
    if wanted < target == pool.min:
        yield Hold(conclusion.bounds.low.limit, conclusion.bounds.low.until)
    if wanted > target == pool.max:
        yield Hold(conclusion.bounds.high.limit, conclusion.bounds.high.until)
    if conclusion.withheld:
        yield Hold(Limit.MODE)


def _failed(memory: PoolMemory, now: datetime) -> Hold:
    """The back-off that ends first; without a time where what failed is replaced at once."""
    first = min(memory.back_offs.values(), key=lambda held: (held.until, held.why))
    return Hold(Limit.START_FAILED, first.until if first.until > now else None, first.why)


def _move(pool: PoolName, current: int, target: int) -> str:
    """As words: "base grows from 2 to 3"."""
    if target == current:
        return f"{pool} stays at {current}"
    return f"{pool} {'grows' if target > current else 'shrinks'} from {current} to {target}"


def _sentence(because: str, move: str, holds: Sequence[Hold]) -> str:
    """The demand, the move, and each guard in force with the time at which it lets go."""
    held = "; ".join(_held(hold) for hold in holds)
    return f"{because}; {move}" + (f" ({held})" if held else "") + "."


def _held(hold: Hold) -> str:
    words = _WORDS[hold.limit] + (f": {hold.detail}" if hold.detail else "")
    return words if hold.until is None else f"{words}, until {hold.until:%H:%M:%S} UTC"


def _may_change_at(holds: Sequence[Hold]) -> datetime | None:
    """When the last of the timed guards in force lets go: before that the size cannot change on unchanged signals."""
    return max((hold.until for hold in holds if hold.until is not None), default=None)
