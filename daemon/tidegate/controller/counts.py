"""Counts of what this process did, kept by any thread and read as one value."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from tidegate.model.decision import Action, Decision
from tidegate.model.fleet import PoolName, ReplicaState
from tidegate.model.overview import Tally
from tidegate.model.records import Outcome, ReplicaRecord


class Counts:
    """Everything counted since the start; `tally()` is a copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: Counter[str] = Counter()
        self._decisions: Counter[PoolName] = Counter()
        self._actions: Counter[tuple[str, str]] = Counter()
        self._notices: Counter[tuple[str, str]] = Counter()
        self._cut_requests = 0

    def reports(self, fate: str, number: int = 1) -> None:
        """Count reports (or one refused request) by what became of them."""
        with self._lock:
            self._reports[fate] += number

    def notice(self, channel: str, result: str) -> None:
        """Count one attempt to tell a channel."""
        with self._lock:
            self._notices[channel, result] += 1

    def planned(self, decisions: Iterable[Decision]) -> None:
        """Count decisions written."""
        with self._lock:
            self._decisions.update(decision.pool for decision in decisions)

    def acted(self, actions: Iterable[Action], outcomes: Iterable[Outcome]) -> None:
        """Count actions by kind and outcome."""
        with self._lock:
            for action, outcome in zip(actions, outcomes, strict=True):
                self._actions[action.kind.value, outcome.outcome.partition(":")[0]] += 1

    def observed(self, changed: Iterable[ReplicaRecord]) -> None:
        """Count the requests cut short by replicas that were just seen to stop."""
        with self._lock:
            self._cut_requests += sum(r.cut_requests for r in changed if r.state is ReplicaState.STOPPED)

    def tally(self) -> Tally:
        """What was counted so far."""
        with self._lock:
            return Tally(
                reports=dict(self._reports),
                decisions=dict(self._decisions),
                actions=dict(self._actions),
                notices=dict(self._notices),
                cut_requests=self._cut_requests,
            )
