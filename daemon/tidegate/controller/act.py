"""Carry out a plan's actions: as wishes in the store, which the agents fetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from tidegate.controller.ports import Replicas
from tidegate.model.decision import Action
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import Outcome
from tidegate.runtime.errors import Permanent

_log = structlog.get_logger()

Wake = Callable[[frozenset[HostName]], None]
"""Ends the waiting of those hosts' long polls."""


class Actor:
    """Turns actions into wishes. Acting twice on the same action does no harm."""

    def __init__(self, replicas: Replicas, wake: Wake) -> None:
        self._replicas, self._wake = replicas, wake

    def act(
        self, actions: Sequence[Action], ids: Sequence[int], policy: FleetPolicy, now: datetime
    ) -> tuple[Outcome, ...]:
        """Apply the actions as one transaction; raises Transient (the next tick plans again)."""
        if not actions:
            return ()
        try:
            touched = self._replicas.apply(actions, policy, now)
        except Permanent as error:
            _log.error("actions refused", error=str(error), actions=len(actions))
            return tuple(Outcome(number, f"failed: {error}") for number in ids)
        self._wake(touched)
        for action in actions:
            _log.info("action", kind=action.kind.value, pool=action.pool, replica=action.replica, why=action.reason)
        return tuple(Outcome(number, "applied") for number in ids)
