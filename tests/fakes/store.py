"""The store in memory: every port of the controller, held to the same contract as the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fakes.history import FakeHistories
from fakes.store_commands import FakeCommands
from fakes.store_costs import FakeBills, FakeCostDays
from fakes.store_fleet import FakeDecisions, FakeReplicas
from fakes.store_leadership import FakeLeaderships
from fakes.store_samples import FakeHosts, FakeReports, FakeUsage

from tidegate.model.alert import AlertState, Notice
from tidegate.model.recent import EngineFigures, GpuFigures


class FakeFigures:
    """Figures in lists."""

    def __init__(self) -> None:
        self.engines: list[EngineFigures] = []
        self.gpus: list[GpuFigures] = []

    def record(self, engines: Sequence[EngineFigures], gpus: Sequence[GpuFigures]) -> None:
        self.engines += engines
        self.gpus += gpus

    def roll_up(self, now: datetime) -> int:
        return 0

    def prune(self, now: datetime, history: timedelta) -> Sequence[str]:
        return ()


class FakeUsers:
    """Users in a dictionary."""

    def __init__(self) -> None:
        self.users: dict[str, tuple[str, str]] = {}

    def add(self, name: str, role: str, token_hash: str, now: datetime) -> bool:
        new = name not in self.users
        self.users[name] = (role, token_hash)
        return new

    def authenticate(self, token_hash: str) -> tuple[str, str] | None:
        return next(((name, role) for name, (role, token) in self.users.items() if token == token_hash), None)


@dataclass
class _Owed:
    notice: Notice
    attempts: int
    next_at: datetime | None


class FakeAlerts:
    """Alerts and notices in dictionaries."""

    def __init__(self) -> None:
        self.kept: dict[str, AlertState] = {}
        self.owed: dict[str, _Owed] = {}
        self.errors: dict[str, str] = {}

    def states(self) -> Sequence[AlertState]:
        return [self.kept[fingerprint] for fingerprint in sorted(self.kept)]

    def save(self, states: Sequence[AlertState], notices: Sequence[Notice]) -> None:
        self.kept |= {state.fingerprint: state for state in states}
        for notice in notices:
            self.owed.setdefault(notice.id, _Owed(notice, 0, notice.created_at))

    def told(self, fingerprint: str) -> Sequence[str]:
        owed = (owed.notice for owed in self.owed.values())
        return sorted({notice.channel for notice in owed if notice.alert.fingerprint == fingerprint})

    def due(self, now: datetime, limit: int = 20) -> Sequence[tuple[Notice, int]]:
        waiting = [owed for owed in self.owed.values() if owed.next_at is not None]
        heads: dict[tuple[str, str], _Owed] = {}
        for owed in sorted(waiting, key=lambda owed: (owed.notice.created_at, owed.notice.id)):
            heads.setdefault((owed.notice.channel, owed.notice.alert.fingerprint), owed)
        due = [owed for owed in heads.values() if owed.next_at is not None and owed.next_at <= now]
        places: dict[str, int] = {}
        few = []
        for owed in due:
            places[owed.notice.channel] = places.get(owed.notice.channel, 0) + 1
            if places[owed.notice.channel] <= 5:
                few.append((owed.notice, owed.attempts))
        return few[:limit]

    def claim(self, notice_id: str, now: datetime, until: datetime) -> bool:
        owed = self.owed[notice_id]
        due = owed.next_at is not None and owed.next_at <= now
        if due:
            owed.next_at = until
        return due

    def delivered(self, notice_id: str, at: datetime) -> None:
        self.retry(notice_id, None, "")

    def retry(self, notice_id: str, at: datetime | None, error: str) -> None:
        owed = self.owed[notice_id]
        owed.attempts, owed.next_at, self.errors[notice_id] = owed.attempts + 1, at, error


@dataclass
class FakeStore:
    """All of it; `usage` sees the same reports and hosts."""

    reports: FakeReports = field(default_factory=FakeReports)
    hosts: FakeHosts = field(default_factory=FakeHosts)
    users: FakeUsers = field(default_factory=FakeUsers)
    replicas: FakeReplicas = field(default_factory=FakeReplicas)
    decisions: FakeDecisions = field(default_factory=FakeDecisions)
    alerts: FakeAlerts = field(default_factory=FakeAlerts)
    commands: FakeCommands = field(default_factory=FakeCommands)
    bills: FakeBills = field(default_factory=FakeBills)
    costs: FakeCostDays = field(default_factory=FakeCostDays)
    usage: FakeUsage = field(init=False)
    histories: FakeHistories = field(init=False)
    figures: FakeFigures = field(default_factory=FakeFigures)
    leaderships: FakeLeaderships = field(init=False)

    def __post_init__(self) -> None:
        self.leaderships = FakeLeaderships(self.replicas)
        self.usage = FakeUsage(self.reports, self.hosts)
        self.histories = FakeHistories(self.reports, self.hosts)
