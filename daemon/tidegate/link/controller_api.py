"""What people and programs need of the controller through its HTTP endpoint: plain values in and out; no HTTP in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from tidegate.model.command import Command, CommandKind, ExternalWish, Order
from tidegate.model.cost_report import Ask, CostAnswer, Span
from tidegate.model.fleet import PoolName
from tidegate.model.history import History, Limits, Question
from tidegate.model.overview import CostsOverview, Endpoint, Overview
from tidegate.model.reading import HostName
from tidegate.model.records import DecisionRecord, PoolFigures
from tidegate.wire import HostRecord


class ControllerApi(Protocol):
    """The controller behind its endpoint. Calls may block (database) and may raise Transient or Permanent."""

    def user_of(self, token_hash: str) -> tuple[str, str] | None:
        """The (name, role) of a user's token."""
        ...

    def overview(self) -> Overview:
        """The fleet as last seen."""
        ...

    def endpoints(self, service: str | None) -> Sequence[Endpoint]:
        """The ready replicas that take traffic."""
        ...

    def decisions(self, pool: PoolName | None, limit: int, *, changes_only: bool) -> Sequence[DecisionRecord]:
        """The newest decisions first."""
        ...

    def costs(self, since: datetime, until: datetime) -> CostsOverview:
        """What was spent and served between the two moments."""
        ...

    def cost_report(self, span: Span, ask: Ask) -> CostAnswer:
        """A report of costs."""
        ...

    def query(self, question: Question, limits: Limits) -> History:
        """The past of the series asked for; raises ValueError when that makes no sense or goes beyond the limits."""
        ...

    def figures(self, since: datetime, until: datetime) -> Sequence[PoolFigures]:
        """The tick figures with since <= at < until, by time."""
        ...

    def commands(self, limit: int) -> Sequence[Command]:
        """Operators' commands, the newest first, ended ones too."""
        ...

    def give(self, orders: Sequence[Order]) -> Sequence[Command]:
        """Put operators' commands in force, each in place of the standing one of its kind for its pool."""
        ...

    def end(self, kinds: Collection[CommandKind], pool: PoolName | None, by: str) -> int:
        """End the standing commands of these kinds for a pool (those for every pool, for None); how many there were."""
        ...

    def ask(self, wish: ExternalWish) -> None:
        """Take another program's wish for a service in place of its last."""
        ...

    def hosts(self) -> Sequence[HostRecord]:
        """Every enrolled host."""
        ...

    def enroll(self, name: HostName, token_hash: str) -> bool:
        """Add a host or give it another token; False when it existed."""
        ...

    def revoke(self, name: HostName) -> bool:
        """Refuse a host from now on; False when there is none."""
        ...

    def add_user(self, name: str, role: str, token_hash: str) -> bool:
        """Add a user or give him another token; False when he existed."""
        ...

    def now(self) -> datetime:
        """The controller's time."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Whether the controller does its work, and the sentence that says so."""
        ...
