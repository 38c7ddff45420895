"""A fleet as the controller sees it: hosts that report, engines under load, a controller over the fake store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from fakes.clock import ManualClock
from fakes.store import FakeStore

from tidegate.config.settings import Settings
from tidegate.controller.act import Actor
from tidegate.controller.agents import Agents
from tidegate.controller.api import Api
from tidegate.controller.cost_activity import Telemetry
from tidegate.controller.cost_ledger import CostLedger
from tidegate.controller.costs import Costs
from tidegate.controller.counts import Counts
from tidegate.controller.head import Head
from tidegate.controller.hearing import Hearing
from tidegate.controller.intake import Intake
from tidegate.controller.learned_prices import LearnedPrices
from tidegate.controller.observer import Observer
from tidegate.controller.recent_past import RecentPast
from tidegate.controller.roster import Roster
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.controller.tick import Planner, Tick
from tidegate.controller.tokens import Tokens
from tidegate.controller.wishes import Wishes
from tidegate.decide.plan import plan
from tidegate.model.decision import Plan
from tidegate.model.fleet import PoolKind, PoolName, ReplicaState, ServiceName, Want
from tidegate.model.overview import Overview
from tidegate.model.policy import (
    Flavour,
    FleetPolicy,
    HostPolicy,
    Mode,
    PolicyName,
    PoolPolicy,
    ServicePolicy,
    TargetPolicy,
)
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gauge,
    GpuFigure,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Rank,
)
from tidegate.model.records import ReplicaRecord
from tidegate.model.series import flatten, layout_id
from tidegate.model.vector import encode
from tidegate.runtime.tokens import token_hash
from tidegate.wire import Answer, Batch, EngineStatus, GpuState, HostState, Layout, ReplicaStatus, Report

H1, H2 = HostName("gpu-1"), HostName("gpu-2")
BASE, BURST, CHAT = PoolName("base"), PoolName("burst"), ServiceName("chat")
R0 = Rank("0")


def fleet_policy(mode: Mode = Mode.ACT) -> FleetPolicy:
    """A base pool of one on gpu-1 and a burst pool of up to three on gpu-2; ten requests a replica."""
    return FleetPolicy(
        services={CHAT: _service()},
        pools={
            BASE: PoolPolicy(BASE, CHAT, PoolKind.BASE, min=1, max=1, flavours=(flavour(H1, "2.10"),)),
            BURST: PoolPolicy(BURST, CHAT, PoolKind.BURST, min=0, max=3, flavours=(flavour(H2, "3.40"),)),
        },
        hosts={H1: HostPolicy(H1, gpus=2), H2: HostPolicy(H2, gpus=4, first_port=8200, address="10.0.0.2")},
        mode=mode,
    )


def _service() -> ServicePolicy:
    target = TargetPolicy(in_flight_per_replica=10.0, cooldown=timedelta())
    return ServicePolicy(CHAT, policy=PolicyName.TARGET, target=target)


def flavour(host: HostName, price: str) -> Flavour:
    """The template "engine" on one host."""
    return Flavour(template="engine", hosts=(host,), price_per_gpu_hour=Decimal(price))


def engine(name: str, at: datetime, state: EngineState = EngineState.READY, **load: float) -> EngineReading:
    """One scrape: gauges `running`, `queue_depth`, `kv_cache_usage`; every other word is a counter's total."""
    gauges = {(Gauge(key), R0): value for key, value in load.items() if key in set(Gauge)}
    counters = {(Counter(key), R0): value for key, value in load.items() if key in set(Counter)}
    return EngineReading(EngineName(name), EngineKind.VLLM, state, at, gauges, counters)


def with_ttft(reading: EngineReading, counts: Sequence[float], bounds: Sequence[float] = (0.1, 1.0)) -> EngineReading:
    """The reading with a TTFT histogram of these cumulative counts."""
    ends = (*bounds, float("inf"))
    found = Histogram(ends, tuple(counts), sum=1.0, count=counts[-1])
    return replace(reading, histograms={(Distribution.TTFT, R0): found})


def survey(at: datetime, *utilizations: float) -> GpuSurvey:
    """GPUs 0, 1, ... with these utilisations."""
    gpus = (
        GpuReading(GpuUuid(f"GPU-{index}"), index, "H100", up=True, figures={GpuFigure.UTILIZATION: value})
        for index, value in enumerate(utilizations)
    )
    return GpuSurvey(up=bool(utilizations), why="", at=at, gpus=tuple(gpus))


def reading(
    host: HostName, at: datetime, engines: Iterable[EngineReading] = (), gpus: Sequence[float] = ()
) -> HostReading:
    """What one collection saw."""
    return HostReading(host, at, survey(at, *gpus), tuple(engines))


def record(name: str, host: HostName = H2, slot: int = 0, **changes: object) -> ReplicaRecord:
    """A managed replica POOL-N, ready for an hour unless told otherwise."""
    long_ago = datetime.fromisoformat("2026-11-25T11:00:00+00:00")
    made = ReplicaRecord(
        id=name,  # type: ignore[arg-type]
        pool=PoolName(name.rpartition("-")[0]),
        host=host,
        template="engine",
        slot=slot,
        gpus=(slot,),
        gpu_count=1,
        port=8200 + slot,
        want=Want.RUN,
        state=ReplicaState.READY,
        since=long_ago,
        requested_at=long_ago,
        ready_at=long_ago,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def host_state(
    gpus: int = 0,
    engines: Iterable[EngineStatus] = (),
    replicas: Mapping[str, ReplicaState] | None = None,
    seen_at: datetime | None = None,
    desired: tuple[int, int] = (0, 0),
) -> HostState:
    """What a host says of itself."""
    since = seen_at.timestamp() if seen_at else 0.0
    return HostState(
        gpus=[GpuState(index=index, uuid=f"GPU-{index}") for index in range(gpus)],
        nvml_up=gpus > 0,
        engines=list(engines),
        replicas=[ReplicaStatus(replica_id=name, state=state, since=since) for name, state in (replicas or {}).items()],
        desired_epoch=desired[0],
        desired_revision=desired[1],
        agent_version="1.0",
    )


def own_engine(name: str = "vllm-a", pool: str = "base", **changes: object) -> EngineStatus:
    """An engine that the operator runs himself on GPU 0."""
    made = EngineStatus(
        name=name, url="http://127.0.0.1:8000/metrics", state="ready", pool=pool, service="chat", gpu_indices=[0]
    )
    return made.model_copy(update=changes)


def batch(
    host: HostName,
    readings: Sequence[HostReading],
    state: HostState | None = None,
    first: int = 1,
    sent_at: datetime | None = None,
) -> Batch:
    """The batch that an agent would send of these readings."""
    layouts: dict[str, Layout] = {}
    reports = []
    for number, found in enumerate(readings, start=first):
        keys, values = flatten(found)
        name = layout_id(keys)
        layouts[name] = Layout(id=name, series=[key.row() for key in keys])
        reports.append(
            Report(boot_id="b", sequence=number, at=found.at.timestamp(), layout=name, values=encode(values))
        )
    sent = sent_at or (readings[-1].at if readings else datetime.fromtimestamp(0, UTC))
    return Batch(host=host, sent_at=sent.timestamp(), layouts=list(layouts.values()), reports=reports, state=state)


@dataclass
class World:
    """A controller over the fake store, under a manual clock."""

    clock: ManualClock
    settings: Settings = field(default_factory=lambda: Settings(Path("tidegate.toml"), fleet_policy()))
    store: FakeStore = field(default_factory=FakeStore)
    planner: Planner = plan
    woken: list[frozenset[HostName]] = field(default_factory=list)

    def __post_init__(self) -> None:
        now = self.clock.now()
        self.current = RunningConfig(self.settings, lambda: self.settings, now)
        self.head = Head(timedelta(minutes=15))
        self.state = State(Overview("1.0", now), self.current, Counts())
        self.wishes = Wishes(self.store.replicas, lambda hosts: self.woken.append(frozenset(hosts)), lambda: 0)
        self.roster = Roster(self.store.hosts)
        self.tokens = Tokens(self.store.hosts)
        self.hearing = Hearing(self.store.reports, self.roster, self.head, self.state)
        self.intake = Intake(self.store.reports, self.wishes, self.hearing, self.head.span)
        self.agents = Agents(self.clock, self.tokens, self.intake, self.wishes, self.hearing)
        follow = RecentPast(self.head, self.store.reports, self.hearing.heard, lambda: now)
        self.observer = Observer(
            self.head,
            self.roster,
            self.store.replicas,
            self.store.decisions,
            follow,
            lambda: now,
            self.store.commands,
        )
        self.actor = Actor(self.store.replicas, self.wishes.changed)
        telemetry = Telemetry(self.store.usage, self.store.replicas, self.store.histories)
        self.costs = Costs(CostLedger(self.clock, self.current, telemetry, self.store.bills, self.store.costs))
        self.tick = Tick(
            self.current,
            self.observer,
            self._plan,
            self.store.replicas,
            self.store.decisions,
            self.actor,
            self.state,
            LearnedPrices(self.costs.ledger.lessons),
        )
        self.api = Api(
            self.clock,
            self.current,
            self.state,
            self.roster,
            self.store.users,
            self.store.replicas,
            self.store.decisions,
            self.costs,
            lambda: (True, "ready"),
            self.store.histories,
            self.store.commands,
            self.tokens.distrust,
        )

    def _plan(self, *arguments: Any) -> Plan:
        return self.planner(*arguments)

    def enroll(self, *names: HostName) -> None:
        """Enroll hosts; the token of each is "token of NAME"."""
        for name in names:
            self.store.hosts.enroll(name, token_hash(f"token of {name}"), self.clock.now())

    def report(self, host: HostName, *readings: HostReading, state: HostState | None = None, first: int = 1) -> Answer:
        """Let a host deliver readings, now."""
        answer = self.intake.take(host, batch(host, readings, state, first, self.clock.now()), self.clock)
        self.roster.flush()
        return answer

    def packed(self, host: HostName, readings: Sequence[HostReading], state: HostState, first: int) -> Batch:
        """What the host would send now."""
        return batch(host, readings, state, first, self.clock.now())

    def run(self) -> None:
        """One tick, now."""
        self.tick(self.clock.now())
