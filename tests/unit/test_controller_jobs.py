"""The jobs beside the tick, the reload, readiness, the first token and the endpoints' addresses."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import (
    BASE,
    H1,
    H2,
    World,
    engine,
    fleet_policy,
    host_state,
    own_engine,
    reading,
    record,
)
from fakes.store import FakeStore
from structlog.testing import capture_logs

from tidegate.config.settings import Settings
from tidegate.controller.boards import Boards
from tidegate.controller.costs import trailing_hour
from tidegate.controller.delivery import Delivery
from tidegate.controller.endpoints import endpoints
from tidegate.controller.first_token import ensure_operator_token
from tidegate.controller.intake import clock_offset
from tidegate.controller.jobs import Jobs
from tidegate.controller.readiness import longest_silence, readiness
from tidegate.controller.running_config import RunningConfig
from tidegate.model.alert import AlertPhase, AlertState, Notice
from tidegate.model.fleet import ReplicaState, Want
from tidegate.model.policy import HitRateRule
from tidegate.model.records import LEVELS, Compacted, Levels, Pruned
from tidegate.runtime.clock import ScaledClock
from tidegate.runtime.errors import ConfigError, Permanent
from tidegate.runtime.loop import JobHealth
from tidegate.runtime.tokens import token_hash
from tidegate.wire import HostRecord

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
RULE = HitRateRule(window=timedelta(minutes=10), baseline=timedelta(hours=1), hold=timedelta(), channels=("ops",))


class Heard:
    """A channel that takes everything."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def send(self, notice: Notice, now: datetime) -> None:
        self.notices.append(notice)


class Forgetful:
    """A retention that only notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[datetime, timedelta, timedelta]] = []

    def prune(self, now: datetime, retention: timedelta, history: timedelta, levels: Levels = LEVELS) -> Pruned:
        self.asked.append((now, retention, history))
        return Pruned(("report_20261101",), 3)


class Compactor:
    """A compaction that answers what it is given."""

    def __init__(self, *answers: Compacted) -> None:
        self.answers = list(answers)

    def compact(self, now: datetime, minute_series: frozenset[str] = frozenset()) -> Compacted:
        return self.answers.pop(0)


def jobs(
    world: World, notifier: Heard, retention: Forgetful | None = None, compaction: Compactor | None = None
) -> Jobs:
    store = world.store
    delivery = Delivery(store.alerts, notifier, world.state.counts)
    return Jobs(
        world.clock,
        world.current,
        world.state,
        store.usage,
        world.costs,
        world.tick.prices,
        store.alerts,
        store.decisions,
        delivery,
        compaction or Compactor(),
        retention or Forgetful(),
        Boards(store.figures, world.state),
    )


def serve(world: World, minutes: int, hit_rate: float, number: int) -> int:
    """Let the base pool's engine work for a while, one report a minute; answers the next sequence number."""
    for _ in range(minutes):
        now = world.clock.forward(60)
        world.served = getattr(world, "served", 0.0) + 10_000.0  # type: ignore[attr-defined]
        world.hits = getattr(world, "hits", 0.0) + 10_000.0 * hit_rate  # type: ignore[attr-defined]
        seen = engine(
            "vllm-a",
            now,
            running=1.0,
            queue_depth=0.0,
            prompt_tokens=world.served,  # type: ignore[attr-defined]
            generation_tokens=world.served / 10,  # type: ignore[attr-defined]
            cache_queries=world.served,  # type: ignore[attr-defined]
            cache_hits=world.hits,  # type: ignore[attr-defined]
        )
        world.report(H1, reading(H1, now, [seen]), state=host_state(2, [own_engine()]), first=number)
        number += 1
    return number


def test_usage_becomes_cost_and_a_drop_of_the_hit_rate_is_told_once_and_resolved_once() -> None:
    """From reports to the page and to people, through the jobs alone."""
    world, heard = World(ManualClock(NOON)), Heard()
    world.settings = replace(world.settings, alerts=(RULE,))
    world.current.reload(NOON)
    world.enroll(H1)
    made = jobs(world, heard)

    def work(number: int, minutes: int, hit_rate: float) -> int:
        for _ in range(minutes // 5):
            number = serve(world, 5, hit_rate, number)
            world.run()
            made.roll_up()
            made.evaluate_alerts()
            made.notify()
            made.read_changes()
        return number

    number = work(1, 70, 0.6)
    assert heard.notices == []
    cost = world.state.overview().cost
    assert cost is not None
    (line,) = cost.pools
    assert (line.pool, line.currency, line.per_million is not None) == ("base", "USD", True)
    assert world.state.costs[BASE] == line.per_million

    with capture_logs() as said:
        number = work(number, 20, 0.1)
    assert [line["phase"] for line in said if line["event"] == "alert"] == ["firing"]
    assert [(notice.channel, notice.alert.phase) for notice in heard.notices] == [("ops", AlertPhase.FIRING)]
    assert world.state.overview().alerts[0].phase is AlertPhase.FIRING

    work(number, 30, 0.6)
    assert [notice.alert.phase for notice in heard.notices] == [AlertPhase.FIRING, AlertPhase.RESOLVED]
    assert world.state.counts.tally().notices == {("ops", "delivered"): 2}


def test_an_alert_whose_rule_was_taken_out_ends_and_tells_whom_it_had_told() -> None:
    world, heard = World(ManualClock(NOON)), Heard()
    world.settings = replace(world.settings, alerts=(RULE,))
    world.current.reload(NOON)
    made = jobs(world, heard)
    firing = AlertState("f", RULE.name, {"pool": "base"}, AlertPhase.FIRING, NOON, starts_at=NOON)
    world.store.alerts.save([firing], [Notice("n", "ops", firing, NOON)])
    made.notify()
    world.settings = replace(world.settings, alerts=())
    world.current.reload(world.clock.forward(60))
    made.evaluate_alerts()
    made.evaluate_alerts()
    made.notify()
    assert [notice.alert.phase for notice in heard.notices] == [AlertPhase.FIRING, AlertPhase.RESOLVED]
    assert "no longer configured" in heard.notices[-1].alert.annotations["summary"]
    assert world.state.alerts[0].phase is AlertPhase.RESOLVED


@pytest.mark.parametrize("channels", [(), ("ops", "pager")])
def test_an_alert_is_in_the_log_once_whoever_is_told(channels: tuple[str, ...]) -> None:
    """Without a channel the log is the only one who hears of it."""
    world, number = World(ManualClock(NOON)), 1
    world.settings = replace(world.settings, alerts=(replace(RULE, channels=channels),))
    world.current.reload(NOON)
    world.enroll(H1)
    made = jobs(world, Heard())

    with capture_logs() as said:
        for hit_rate in (*[0.6] * 14, *[0.1] * 4):
            number = serve(world, 5, hit_rate, number)
            world.run()
            made.roll_up()
            made.evaluate_alerts()

    assert [line["phase"] for line in said if line["event"] == "alert"] == ["firing"]


def test_the_trailing_hour_is_made_of_whole_buckets() -> None:
    """Tokens are counted by bucket, so GPU hours must be taken over the same span."""
    now = NOON + timedelta(minutes=7, seconds=12)

    assert trailing_hour(now) == (NOON - timedelta(minutes=55), NOON + timedelta(minutes=5))


def test_retention_is_asked_for_with_the_configured_spans() -> None:
    """At the clock's time."""
    world, retention = World(ManualClock(NOON)), Forgetful()

    jobs(world, Heard(), retention).drop_old()

    assert retention.asked == [(NOON, timedelta(days=15), timedelta(days=400))]


# --- reload


def test_a_reload_that_fails_keeps_the_running_configuration_and_is_told() -> None:
    """The page and the metrics say so until a good one comes."""
    first = Settings(Path("a.toml"), fleet_policy())
    answers: list[Settings | ConfigError] = [ConfigError("line 3: wrong"), replace(first, currency="EUR")]

    def read() -> Settings:
        found = answers.pop(0)
        if isinstance(found, ConfigError):
            raise found
        return found

    current = RunningConfig(first, read, NOON)

    assert not current.reload(NOON + timedelta(hours=1))
    assert (current.settings, current.reload_ok, current.loaded_at) == (first, False, NOON)
    assert current.reload(NOON + timedelta(hours=2))
    assert (current.settings.currency, current.reload_ok) == ("EUR", True)


# --- readiness


@pytest.mark.parametrize(
    ("health", "ready", "why"),
    [
        (None, False, "starting"),
        (JobHealth(), False, "starting"),
        (JobHealth(failures=2, error="database away"), False, "no tick has gone through yet: database away"),
        (JobHealth(last_success=NOON - timedelta(seconds=30)), True, "ready"),
        (JobHealth(last_success=NOON - timedelta(seconds=90), error="database away"), False, "90 s ago: database away"),
    ],
)
def test_readiness_is_judged_by_the_ticks(health: JobHealth | None, ready: bool, why: str) -> None:
    """The sentence says since when and why."""
    found = readiness(health, timedelta(seconds=60), NOON - timedelta(days=1), NOON)

    assert found[0] is ready
    assert why in found[1]


def test_under_a_played_clock_readiness_waits_some_real_seconds() -> None:
    """A busy machine is no outage, however fast time is played."""
    assert longest_silence(timedelta(seconds=15), ManualClock(NOON)) == timedelta(seconds=60)
    assert longest_silence(timedelta(seconds=15), ScaledClock(0, NOON, 600)) == timedelta(seconds=6000)


# --- the first token


def test_the_first_token_is_written_once_for_its_owner_alone(tmp_path: Path) -> None:
    """The store keeps its hash; a later start leaves both as they are."""
    store, folder = FakeStore(), tmp_path / "state"

    ensure_operator_token(folder, store.users, NOON)
    token = (folder / "operator.token").read_text().strip()
    ensure_operator_token(folder, store.users, NOON)

    assert store.users.authenticate(token_hash(token)) == ("operator", "operator")
    assert (folder / "operator.token").read_text().strip() == token
    assert stat.S_IMODE((folder / "operator.token").stat().st_mode) == 0o600
    assert token not in str(store.users.users)


def test_a_token_file_that_outlived_its_database_works_again(tmp_path: Path) -> None:
    """A crash between file and database, or a database made anew."""
    ensure_operator_token(tmp_path, FakeStore().users, NOON)
    token, fresh = (tmp_path / "operator.token").read_text().strip(), FakeStore()

    ensure_operator_token(tmp_path, fresh.users, NOON)

    assert fresh.users.authenticate(token_hash(token)) is not None


def test_a_state_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    """With the remedy."""
    (tmp_path / "operator.token").mkdir()

    with pytest.raises(Permanent, match="state folder"):
        ensure_operator_token(tmp_path, FakeStore().users, NOON)


# --- endpoints


def test_an_endpoint_is_where_routers_reach_the_replica() -> None:
    """The declared address, else the host's name; an own engine's address when it says more than "this host"."""
    policy = fleet_policy()
    v6 = replace(policy, hosts={**policy.hosts, H2: replace(policy.hosts[H2], address="fd00::2")})
    own = replace(record("base-0", H1), id="gpu-1/vllm-a", managed=False, slot=None, port=8000)  # type: ignore[arg-type]

    def targets(found: object, **engine_changes: object) -> list[str]:
        state = host_state(2, [own_engine(**engine_changes)])
        hosts = [HostRecord(H1, NOON, state, revoked=False)]
        return [one.target for one in endpoints([record("burst-1"), own], hosts, found, None)]  # type: ignore[arg-type]

    assert targets(policy) == ["10.0.0.2:8200", "gpu-1:8000"]
    assert targets(v6, url="http://[::1]:8000/metrics") == ["[fd00::2]:8200", "gpu-1:8000"]
    assert targets(policy, url="http://llm.internal:8000/metrics") == ["10.0.0.2:8200", "llm.internal:8000"]


@pytest.mark.parametrize(
    "changes",
    [{"state": ReplicaState.LOADING}, {"state": ReplicaState.DRAINING}, {"want": Want.DRAIN}, {"want": Want.CORDON}],
)
def test_what_is_not_ready_or_about_to_leave_takes_no_traffic(changes: dict[str, object]) -> None:
    """From the moment of the command, before the host has heard of it."""
    assert list(endpoints([record("burst-1", **changes)], [], fleet_policy(), None)) == []


@pytest.mark.parametrize(
    ("sent", "offset"), [(NOON.timestamp() + 29, 0), (NOON.timestamp() - 31, -31), (1e300, 0), (-1e300, 0)]
)
def test_a_clock_is_off_only_beyond_the_tolerance(sent: float, offset: int) -> None:
    """A time that is none is no offset."""
    assert clock_offset(sent, NOON, timedelta(seconds=30)) == timedelta(seconds=offset)


def test_the_price_of_a_replica_reaches_the_cost_as_a_decimal() -> None:
    """No float on the way."""
    world = World(ManualClock(NOON))
    world.store.replicas.records["base-1"] = record("base-1", H1)  # type: ignore[index]

    cost = world.costs.between(NOON - timedelta(minutes=30), NOON, fleet_policy())

    assert cost.total.amount == Decimal("1.05")
    assert cost.total.per_million is None


def test_a_host_that_shows_too_many_series_is_named_once_until_it_has_stopped() -> None:
    world = World(ManualClock(NOON))
    world.enroll(H1)
    told = [Compacted(1, 10, left_out={H1: number}) for number in (7, 9, 0, 3)]
    made = jobs(world, Heard(), compaction=Compactor(*told))
    with capture_logs() as said:
        made.compact()
        made.compact()
        world.run()
        assert [host.series_left_out for host in world.state.overview().hosts] == [9]
        made.compact()
        made.compact()
    assert [(line["host"], line["series"]) for line in said if "too many new series" in line["event"]] == [
        (H1, 7),
        (H1, 3),
    ]
