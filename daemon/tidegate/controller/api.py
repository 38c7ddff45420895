"""The controller as people and programs see it: questions and commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.controller.costs import Costs
from tidegate.controller.endpoints import endpoints
from tidegate.controller.past_ports import Histories
from tidegate.controller.ports import Commands, Decisions, Replicas, Users
from tidegate.controller.roster import Roster
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.model.command import Command, CommandKind, ExternalWish, Order
from tidegate.model.cost_report import Ask, CostAnswer, Span
from tidegate.model.fleet import PoolName
from tidegate.model.history import History, Limits, Question
from tidegate.model.overview import CostsOverview, Endpoint, Overview
from tidegate.model.reading import HostName
from tidegate.model.records import DecisionRecord, PoolFigures
from tidegate.runtime.clock import Clock
from tidegate.wire import HostRecord


@dataclass(frozen=True, slots=True)
class Api:
    """Implements `link.controller_api.ControllerApi`; every call may block on the database."""

    clock: Clock
    current: RunningConfig
    state: State
    hosts_store: Roster
    users: Users
    replicas: Replicas
    decisions_store: Decisions
    cost_book: Costs
    readiness: Callable[[], tuple[bool, str]]
    histories: Histories
    commands_store: Commands
    distrust: Callable[[HostName], None]
    """Has a host's token forgotten, before this returns."""

    def user_of(self, token_hash: str) -> tuple[str, str] | None:
        """The (name, role) of a user's token."""
        return self.users.authenticate(token_hash)

    def overview(self) -> Overview:
        """The fleet as last seen."""
        return self.state.overview()

    def endpoints(self, service: str | None) -> Sequence[Endpoint]:
        """The ready replicas that take traffic, by what is wanted of them at this moment."""
        fleet = self.current.settings.fleet
        return tuple(endpoints(self.replicas.load(), self.hosts_store.all(), fleet, service))

    def decisions(self, pool: PoolName | None, limit: int, *, changes_only: bool) -> Sequence[DecisionRecord]:
        """The newest decisions first."""
        return self.decisions_store.latest(limit, pool, changes_only=changes_only)

    def costs(self, since: datetime, until: datetime) -> CostsOverview:
        """What was spent and served between the two moments."""
        return self.cost_book.between(since, until, self.current.settings.fleet)

    def cost_report(self, span: Span, ask: Ask) -> CostAnswer:
        """A report of costs."""
        return self.cost_book.answer(span, ask)

    def query(self, question: Question, limits: Limits) -> History:
        """The past of the series asked for."""
        return self.histories.query(question, limits)

    def figures(self, since: datetime, until: datetime) -> Sequence[PoolFigures]:
        """The tick figures with since <= at < until, by time."""
        return self.decisions_store.figures(since, until)

    def commands(self, limit: int) -> Sequence[Command]:
        """Operators' commands, the newest first, ended ones too."""
        return self.commands_store.latest(limit)

    def give(self, orders: Sequence[Order]) -> Sequence[Command]:
        """Put operators' commands in force; the next tick follows them."""
        return self.commands_store.give(orders, self.clock.now())

    def end(self, kinds: Collection[CommandKind], pool: PoolName | None, by: str) -> int:
        """End standing commands; how many there were."""
        return self.commands_store.end(kinds, pool, by, self.clock.now())

    def ask(self, wish: ExternalWish) -> None:
        """Take another program's wish for a service."""
        self.commands_store.ask(wish)

    def hosts(self) -> Sequence[HostRecord]:
        """Every enrolled host."""
        return self.hosts_store.all()

    def enroll(self, name: HostName, token_hash: str) -> bool:
        """Add a host or give it another token; False when it existed."""
        new = self.hosts_store.enroll(name, token_hash, self.clock.now())
        self.distrust(name)
        return new

    def revoke(self, name: HostName) -> bool:
        """Refuse a host from now on; False when there is none."""
        found = self.hosts_store.revoke(name, self.clock.now())
        self.distrust(name)
        return found

    def add_user(self, name: str, role: str, token_hash: str) -> bool:
        """Add a user or give him another token; False when he existed."""
        return self.users.add(name, role, token_hash, self.clock.now())

    def now(self) -> datetime:
        """The controller's time."""
        return self.clock.now()

    def ready(self) -> tuple[bool, str]:
        """Whether the controller does its work, and the sentence that says so."""
        return self.readiness()
