"""The one sentence that an operator reads at 03:00: what was seen, what follows for the pool, what held it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.decide.guard import Hold
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolName

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
}


@dataclass(frozen=True, slots=True)
class Move:
    """A pool's size now and after the plan."""

    pool: PoolName
    current: int
    target: int

    def __str__(self) -> str:
        """As words: "base grows from 2 to 3"."""
        if self.target == self.current:
            return f"{self.pool} stays at {self.current}"
        verb = "grows" if self.target > self.current else "shrinks"
        return f"{self.pool} {verb} from {self.current} to {self.target}"


def sentence(because: str, move: Move, holds: Sequence[Hold]) -> str:
    """One English sentence: the demand, the move, and each guard in force with the time at which it lets go."""
    held = "; ".join(_held(hold) for hold in holds)
    return f"{because}; {move}" + (f" ({held})" if held else "") + "."


def may_change_at(holds: Sequence[Hold]) -> datetime | None:
    """When the last of the timed guards in force lets go: before that the size cannot change on unchanged signals."""
    return max((hold.until for hold in holds if hold.until is not None), default=None)


def _held(hold: Hold) -> str:
    words = _WORDS[hold.limit]
    return words if hold.until is None else f"{words}, until {hold.until:%H:%M:%S} UTC"
