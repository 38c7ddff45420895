"""What the controller needs of the world. Adapters live in store/, notify/, link/; only wiring.py names them.

Every write is one transaction and idempotent: after a crash the same call again does no harm. What only a leader may
write raises Transient when the term is over that the caller works under.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from tidegate.model.activity import HostTokens
from tidegate.model.alert import AlertState, Notice
from tidegate.model.command import Command, CommandKind, ExternalWish, Order
from tidegate.model.decision import Action, Plan
from tidegate.model.fleet import PoolName
from tidegate.model.leadership import Candidate, Lease
from tidegate.model.memory import Memory
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import HostName, HostReading
from tidegate.model.records import (
    LEVELS,
    Compacted,
    DecisionRecord,
    Levels,
    Outcome,
    PoolFigures,
    Pruned,
    ReplicaRecord,
)
from tidegate.model.unflatten import Reader
from tidegate.model.usage import Holding, TokenUsage
from tidegate.runtime.errors import TidegateError
from tidegate.wire import Accepted, Desired, HostRecord, HostState, Incoming, Layout, Report


class Reports(Protocol):
    """The time series: one row per report."""

    def accept(
        self, host: HostName, layouts: Sequence[Layout], reports: Sequence[Report], received_at: datetime
    ) -> Accepted:
        """Store what is new; a report whose layout nobody knows is neither stored nor acknowledged.

        Raises ValueError (nothing stored) when a vector's length does not fit its layout.
        """
        ...

    def accept_all(self, incoming: Sequence[Incoming]) -> Sequence[Accepted | TidegateError | ValueError]:
        """The same for what many hosts sent, together: one answer each, or what it failed by."""
        ...

    def readers(
        self, wanted: Collection[tuple[HostName, str]], *, remembered: bool = False
    ) -> Mapping[tuple[HostName, str], Reader]:
        """What reads the vectors of these layouts, by host and id; one that is not stored is left out.

        `remembered`: those alone that can be had without asking the database.
        """
        ...

    def readings(self, since: datetime, until: datetime, host: HostName | None = None) -> Iterable[HostReading]:
        """Stored readings with since <= at < until, by host, then by time."""
        ...

    def count(self, host: HostName) -> int:
        """How many reports of the host are stored."""
        ...


class Recent(Protocol):
    """The recent past, for the tick: held in memory, or read from a Prometheus. Never a scan of stored samples."""

    def since(self, since: datetime, until: datetime) -> Mapping[HostName, Sequence[HostReading]]:
        """Every host's readings with since < at <= until, oldest first; hosts without one are left out."""
        ...


class Hosts(Protocol):
    """Who may report, and what each said last."""

    def enroll(self, name: HostName, token_hash: str, now: datetime) -> bool:
        """Add a host, or give it another token; False when it existed."""
        ...

    def revoke(self, name: HostName, now: datetime) -> bool:
        """Refuse the host from now on; False when there is none."""
        ...

    def seen(self, name: HostName, state: HostState, at: datetime) -> None:
        """Remember the last live state."""
        ...

    def all(self) -> Sequence[HostRecord]:
        """Every host, by name."""
        ...


class HostBook(Hosts, Protocol):
    """The hosts as the store keeps them: with their tokens, and what is read and written for many at once."""

    def authenticate(self, token_hash: str) -> HostName | None:
        """Whose token this is; None when nobody's or revoked."""
        ...

    def good_tokens(self, token_hashes: Collection[str]) -> Mapping[str, HostName]:
        """Whose these tokens are; those that are nobody's or revoked are left out."""
        ...

    def seen_many(self, news: Sequence[HostRecord]) -> None:
        """Remember the last live state of many hosts; raises Transient, and then some of them may be remembered."""
        ...

    def listing(self) -> Sequence[HostRecord]:
        """Every host by name, without its state."""
        ...

    def states(self, names: Collection[HostName]) -> Mapping[HostName, HostRecord]:
        """These hosts with what they said last."""
        ...


class Users(Protocol):
    """Who may command."""

    def add(self, name: str, role: str, token_hash: str, now: datetime) -> bool:
        """Add a user ("viewer" or "operator"), or give him another token; False when he existed."""
        ...

    def authenticate(self, token_hash: str) -> tuple[str, str] | None:
        """The (name, role) of the token; None when nobody's."""
        ...


class Replicas(Protocol):
    """What should run where, and what was seen to."""

    def load(self) -> Sequence[ReplicaRecord]:
        """Every replica that is not stopped."""
        ...

    def next_serials(self) -> Mapping[PoolName, int]:
        """One above the highest serial ever used in each pool (ids are POOL-N)."""
        ...

    def apply(self, actions: Sequence[Action], policy: FleetPolicy, now: datetime) -> frozenset[HostName]:
        """Turn actions into wishes and raise the revision of every host touched; returns those hosts."""
        ...

    def observe(self, seen: Sequence[ReplicaRecord]) -> None:
        """Write what was seen (state, since, ready_at, stopped_at, why); adds unmanaged ones."""
        ...

    def desired(self, host: HostName) -> Desired:
        """The host's complete desired state, under the current epoch. Stopped replicas are not in it."""
        ...

    def positions(self) -> Mapping[HostName, tuple[int, int]]:
        """(epoch, revision) of the desired state of every host that ever had one."""
        ...

    def holdings(self, since: datetime, until: datetime, policy: FleetPolicy) -> Sequence[Holding]:
        """Which replica held GPUs between the two moments, clipped to them (to `until` when still held)."""
        ...


class Leaderships(Protocol):
    """The lease that one controller at a time holds."""

    def claim(self, candidate: Candidate, epoch: int | None, span: timedelta, now: datetime) -> Lease:
        """Renew the term for `span` real seconds, or begin one where nobody leads; else say who does.

        `epoch` is the candidate's running term; None at its start, when the lease of its own earlier life is no
        obstacle. Raises Transient when the database is away.
        """
        ...

    def resign(self, candidate: Candidate, epoch: int) -> None:
        """Give the lease back, so that another need not wait for its end."""
        ...


class Commands(Protocol):
    """What operators command and other programs wish, beside the configuration; on record with who said it."""

    def standing(self, now: datetime) -> Sequence[Command]:
        """The commands in force, in the order in which they were given."""
        ...

    def latest(self, limit: int) -> Sequence[Command]:
        """The newest commands first, ended ones too."""
        ...

    def give(self, orders: Sequence[Order], now: datetime) -> Sequence[Command]:
        """Put commands in force, each in place of the standing one of its kind for its pool."""
        ...

    def end(self, kinds: Collection[CommandKind], pool: PoolName | None, by: str, now: datetime) -> int:
        """End the standing commands of these kinds for a pool (those for every pool, for None); how many there were."""
        ...

    def ask(self, wanted: ExternalWish) -> None:
        """Take a program's wish in place of its last."""
        ...

    def asked(self) -> Sequence[ExternalWish]:
        """The last wish for each service, whether it still counts or not."""
        ...


class Decisions(Protocol):
    """The log of decisions, written before acting."""

    def record(self, plan: Plan) -> Sequence[int]:
        """Write decisions and actions as one transaction; returns the actions' ids in the plan's order.

        An unchanged decision (same pool, target, wanted, reason kind and limits) is still written: it is the proof
        that the controller looked.
        """
        ...

    def settle(self, outcomes: Sequence[Outcome], memory: Memory, figures: Sequence[PoolFigures]) -> None:
        """Write outcomes, memory and the tick's figures as one transaction."""
        ...

    def memory(self) -> Memory:
        """What was settled last; an empty Memory at first."""
        ...

    def latest(
        self, limit: int, pool: PoolName | None = None, *, changes_only: bool = False
    ) -> Sequence[DecisionRecord]:
        """The newest decisions first; only those with an action when asked."""
        ...

    def figures(self, since: datetime, until: datetime) -> Sequence[PoolFigures]:
        """The tick figures with since <= at < until, by time."""
        ...


class Usage(Protocol):
    """Token usage in five-minute buckets, kept up to date from the stored reports, late ones included."""

    def roll_up(self, now: datetime) -> int:
        """Recompute every bucket that got reports since the last call; returns how many. Bounded per call.

        An engine belongs to the pool that its host said; one of no pool is kept, but in no pool's figures.
        """
        ...

    def between(self, since: datetime, until: datetime) -> Sequence[TokenUsage]:
        """Buckets with since <= bucket < until, by bucket and pool."""
        ...

    def by_host(self, since: datetime, until: datetime) -> Sequence[HostTokens]:
        """The same for each host and pool."""
        ...


class Compaction(Protocol):
    """Makes chunks and rollups of reports."""

    def compact(self, now: datetime, minute_series: frozenset[str] = frozenset()) -> Compacted:
        """Compact what is due; bounded per call, and stopped anywhere the next call goes on.

        `minute_series`: names of which a rollup by the minute is made as well.
        """
        ...


class Retention(Protocol):
    """Keeps the store from growing without end."""

    def prune(self, now: datetime, retention: timedelta, history: timedelta, levels: Levels = LEVELS) -> Pruned:
        """Forget what every tick and report adds beyond `retention`, and what remains of it beyond `history`.

        Works in bounded steps: stopped anywhere, the next call goes on.
        """
        ...


class Alerts(Protocol):
    """Alert states and the notices that they owe."""

    def states(self) -> Sequence[AlertState]:
        """Every alert that was ever active, last phase."""
        ...

    def save(self, states: Sequence[AlertState], notices: Sequence[Notice]) -> None:
        """Write states and enqueue notices, one transaction."""
        ...

    def told(self, fingerprint: str) -> Sequence[str]:
        """The channels that a notice of this alert was ever meant for, by name."""
        ...

    def due(self, now: datetime, limit: int = 20) -> Sequence[tuple[Notice, int]]:
        """Notices to try now, with the attempts already made."""
        ...

    def claim(self, notice_id: str, now: datetime, until: datetime) -> bool:
        """Keep a notice that is due from everybody else until then; False when it is not due any more."""
        ...

    def delivered(self, notice_id: str, at: datetime) -> None:
        """The channel took it."""
        ...

    def retry(self, notice_id: str, at: datetime | None, error: str) -> None:
        """Try again at the given time; never again when None (given up, and counted)."""
        ...


class Notifier(Protocol):
    """Tells one channel."""

    def send(self, notice: Notice, now: datetime) -> None:
        """Deliver; raises Transient (with a later try) or Permanent."""
        ...
