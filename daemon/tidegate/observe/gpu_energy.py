"""Keep jumps that no power limit allows out of an energy counter. Pure.

Some drivers add terawatts to the counter for one reading, some for good; either would end up as money.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.model.missing import Gap, Missing, Number

_MARGIN = 1.5
"""Over the power limit, as xpumanager's guard has it."""
_SLACK_SECONDS = 5.0
"""The counter and the clock are not read at the same moment."""
HIGHEST_WATTS = 3000.0
"""For a GPU that does not tell its limit."""


@dataclass(frozen=True, slots=True)
class Energy:
    """A counter's last believed value, what is taken off it, and a jump that waits for a second opinion."""

    joules: float
    at: datetime
    offset: float = 0.0
    doubted: float | None = None
    doubted_at: datetime | None = None


def believed(before: Energy | None, joules: float, at: datetime, limit_watts: Number) -> tuple[Energy, Number]:
    """The counter without jumps, and what to remember.

    A jump is missing once. When the next reading goes on from where it led, the jump is taken off from then on;
    when it does not, it never was. A counter that runs backwards was started afresh, and stands as it is.
    """
    limit = HIGHEST_WATTS if isinstance(limit_watts, Missing) or limit_watts <= 0 else limit_watts
    if before is None or joules < before.joules:
        return Energy(joules, at), joules
    if joules - before.joules <= _most(limit, before.at, at):
        return Energy(joules, at, before.offset), joules - before.offset
    if before.doubted is not None and before.doubted_at is not None:
        since = joules - before.doubted
        if 0 <= since <= _most(limit, before.doubted_at, at):
            offset = before.offset + before.doubted - before.joules
            return Energy(joules, at, offset), joules - offset
    return Energy(before.joules, before.at, before.offset, joules, at), Missing(Gap.MALFORMED)


def _most(limit_watts: float, since: datetime, at: datetime) -> float:
    seconds = max(0.0, (at - since).total_seconds())
    return limit_watts * _MARGIN * (seconds + _SLACK_SECONDS)
