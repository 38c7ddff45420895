"""What must hold of `plan` for every fleet, every memory and every moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from fakes.world import BASE, BURST, CHAT, LONG_AGO, NOON, World, applied, fleet, policy, pool, replica, threshold
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegate.decide.forecast import CELLS
from tidegate.decide.misses import STEPS
from tidegate.decide.plan import plan
from tidegate.decide.profile import A_DAY, BUCKET_S
from tidegate.model.decision import ActionKind, Plan
from tidegate.model.fleet import (
    Fleet,
    Idle,
    PoolView,
    Replica,
    ReplicaState,
    Signal,
    SignalName,
    Value,
    Want,
)
from tidegate.model.memory import BackOff, Capacity, Forecast, Guess, Memory, PoolMemory, ServiceMemory
from tidegate.model.policy import FleetPolicy, Mode, PolicyName, ServicePolicy, TargetPolicy
from tidegate.model.reading import Gap, Missing
from tidegate.model.season import Claim, Day, Rise, Season, Trial

moments = st.integers(-7200, 7200).map(lambda seconds: NOON + timedelta(seconds=seconds))
maybe_moments = st.none() | moments
loads = st.floats(0, 500)
numbers = loads | st.sampled_from([float("nan"), float("inf"), -1.0, 1e308])
silence = st.sampled_from(Gap).map(Missing)
signals: st.SearchStrategy[Signal] = numbers.map(Value) | st.builds(Idle) | silence
quiet: st.SearchStrategy[Signal] = st.just(Value(0.0)) | st.builds(Idle) | silence


def replicas(
    of: st.SearchStrategy[Signal] = signals, states: st.SearchStrategy[ReplicaState] | None = None
) -> st.SearchStrategy[list[Replica]]:
    """Up to nine replicas of both pools, in any state."""
    one = st.fixed_dictionaries(
        {
            "state": states or st.sampled_from(ReplicaState),
            "since": moments,
            "managed": st.booleans(),
            "deadline": maybe_moments,
            "want": st.none() | st.sampled_from(Want),
            "signals": st.dictionaries(st.sampled_from(SignalName), of),
        }
    )
    owner = st.sampled_from([BASE, BURST])
    return st.lists(st.tuples(owner, one), max_size=9).map(
        lambda found: [replica(f"{name}-{number}", **fields) for number, (name, fields) in enumerate(found)]
    )


services = st.builds(
    lambda name, per: ServicePolicy(CHAT, policy=name, target=TargetPolicy(in_flight_per_replica=per)),
    st.sampled_from(PolicyName),
    st.floats(0.5, 64),
)


@st.composite
def policies(draw: st.DrawFn) -> FleetPolicy:
    """A base and a burst pool with any bounds."""
    pools = [
        pool(name, low, low + draw(st.integers(0, 6))) for name in (BASE, BURST) for low in [draw(st.integers(0, 3))]
    ]
    return policy(*pools, service=draw(services), silent_share=draw(st.floats(0, 1)))


seeds = st.integers(0, 2**32).map(Random)
"""What was learned is many numbers: drawn from a seed, for hypothesis is slow at drawing them one by one."""


def _capacity(random: Random) -> Capacity:
    def some(count: int) -> tuple[float, ...]:
        return tuple(random.choice((0.0, 1.0, 1e4)) * random.random() for _ in range(count))

    bins = tuple((seen, seen * random.random()) for seen in some(STEPS))
    known = random.random() < 0.8
    return Capacity(
        sums=some(9) if known else (),
        unit=(random.uniform(1e-6, 1e-2), random.uniform(1e-6, 1e-2)) if known else (),
        bins=bins if random.random() < 0.8 else (),
        waits=(random.random() * 100, random.random() * 100),
        alone=(random.random() * 100, random.random() * 100),
        told=random.random() * 100,
        work=random.random() * 100,
        requests=random.random() * 1000,
    )


def _forecast(random: Random) -> Forecast:
    def moment() -> datetime:
        return NOON + timedelta(seconds=random.uniform(-7200, 7200))

    def level() -> float:
        return random.choice((0.0, 1.0, 100.0)) * random.random()

    return Forecast(
        since=random.choice((None, moment())),
        at=random.choice((None, moment())),
        brisk=level(),
        fast=level(),
        slow=level(),
        mean=level(),
        peak=level(),
        guesses=tuple(Guess(moment(), level(), level(), level(), level()) for _ in range(random.randrange(3))),
        trends=(random.uniform(-100, 100), random.random() * 100),
        began=random.choice((None, moment())),
        blocks=tuple(tuple(random.random() for _ in range(CELLS)) for _ in range(random.randrange(4))),
    )


def _season(random: Random) -> Season:
    """Most of them with a rise that is due, for only that bears on a plan."""

    def rise() -> Rise | None:
        found = Rise(random.random() * 20, random.random() * 20, random.randrange(2, 4), random.choice(LIKE))
        return found if random.random() < 0.8 else None

    bucket = int(NOON.timestamp() // BUCKET_S) - random.choice((0, 0, 1, 1, 2, 1000))
    days = tuple(Day(bucket // A_DAY - back, "gA" * A_DAY) for back in (14, 7, 3, 2, 1, 0))
    trials = (Trial(bucket - A_DAY, random.random(), (random.random(),) * 3),)
    claims = tuple(Claim(bucket - more, random.random(), (random.random(),) * 3, 1.0) for more in range(5))
    return Season(NOON, bucket, 100.0, random.random() * 1000, days, claims, trials, rise(), rise())


LIKE = ("days", "workdays", "weekend days", "weeks")
capacities, forecasts, seasons = seeds.map(_capacity), seeds.map(_forecast), seeds.map(_season)
back_offs = st.dictionaries(st.just("default"), st.builds(BackOff, moments, st.integers(0, 99)))
memories = st.builds(
    Memory,
    maybe_moments,
    maybe_moments,
    st.builds(
        ServiceMemory,
        st.lists(st.tuples(moments, st.integers(0, 12)), max_size=5).map(tuple),
        maybe_moments,
        maybe_moments,
        flaps=st.lists(moments, max_size=4).map(lambda found: tuple(sorted(found))),
        first=st.none() | st.tuples(moments, st.integers(0, 12)),
        capacity=capacities,
        forecast=forecasts,
        season=seasons,
    ).map(lambda chat: {CHAT: chat}),
    st.builds(PoolMemory, st.integers(1, 99), back_offs=back_offs).map(lambda one: {BASE: one}),
)
places = st.fixed_dictionaries({BASE: st.integers(0, 6), BURST: st.integers(0, 6)})


def size(made: Plan) -> int:
    """The targets of all pools together."""
    return sum(decision.target for decision in made.decisions)


@given(replicas(), policies(), memories, places)
def test_every_pool_is_decided_within_its_bounds_and_never_beyond_its_places(
    found: list[Replica], made: FleetPolicy, memory: Memory, free: dict[str, int]
) -> None:
    result = plan(fleet(*found, free=free), made, memory, NOON)

    assert [decision.pool for decision in result.decisions] == [BASE, BURST]
    for decision in result.decisions:
        rules = made.pools[decision.pool]
        assert rules.min <= decision.target <= rules.max
        assert decision.current == decision.ready + decision.starting
        assert decision.reason.endswith(".")
        assert "\n" not in decision.reason
        mine = [action for action in result.actions if action.pool == decision.pool]
        starts = [action for action in mine if action.kind is ActionKind.START]
        assert len(starts) <= free[decision.pool]
        added = len(starts) + sum(action.kind is ActionKind.RESUME for action in mine)
        assert not added or decision.current + added <= rules.max
    touched = [action.replica for action in result.actions]
    assert len(touched) == len(set(touched))
    assert all(one.managed for one in found if one.id in touched)


@given(replicas(), policies(), memories, st.randoms(use_true_random=False))
def test_same_inputs_same_plan_in_whatever_order_they_come(
    found: list[Replica], made: FleetPolicy, memory: Memory, random: Random
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)

    assert plan(fleet(*found), made, memory, NOON) == plan(fleet(*shuffled), made, memory, NOON)


@given(replicas(silence), policies(), memories)
def test_without_data_nothing_is_taken_away_but_what_is_above_max(
    found: list[Replica], made: FleetPolicy, memory: Memory
) -> None:
    """But by a size that is given whatever the load (docs/pools.md)."""
    assume(made.services[CHAT].policy not in {PolicyName.SCHEDULE, PolicyName.EXTERNAL})
    result = plan(fleet(*found), made, memory, NOON)

    for decision in result.decisions:
        assert decision.target >= min(decision.current, made.pools[decision.pool].max)


@given(replicas(quiet), policies(), memories)
def test_zero_load_never_scales_out(found: list[Replica], made: FleetPolicy, memory: Memory) -> None:
    """What is added only fills a pool's min, or stands in for what was above another pool's max, or is scheduled."""
    assume(made.services[CHAT].policy is not PolicyName.SCHEDULE)
    result = plan(fleet(*found), made, memory, NOON)

    current = sum(one.current for one in result.decisions)
    added = sum(action.kind in (ActionKind.START, ActionKind.RESUME) for action in result.actions)
    removed = sum(action.kind in (ActionKind.DRAIN, ActionKind.CANCEL) for action in result.actions)
    below = sum(max(0, made.pools[one.pool].min - one.current) for one in result.decisions)
    lowest = sum(one.min for one in made.pools.values())
    assert current + added - removed <= max(current, lowest) + below


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=6),
    policies(),
    memories,
    places,
    st.sets(st.integers(0, 5)),
)
def test_more_load_never_means_fewer_replicas(
    pairs: list[tuple[float, float]], made: FleetPolicy, memory: Memory, free: dict[str, int], silent: set[int]
) -> None:
    def seen(scale: int, more: int) -> Fleet:
        names = [f"{(BASE, BURST)[number % 2]}-{number}" for number in range(len(pairs))]
        said = [{} if number in silent else _busy(pair, scale, more) for number, pair in enumerate(pairs)]
        return fleet(*(replica(name, signals=one) for name, one in zip(names, said, strict=True)), free=free)

    for scale in (1, 200):  # whole requests, and shares of a GPU
        assert size(plan(seen(scale, 0), made, memory, NOON)) <= size(plan(seen(scale, 1), made, memory, NOON))


def _busy(pair: tuple[float, float], scale: int, more: int) -> dict[SignalName, Signal]:
    value = Value((pair[0] + more * pair[1]) / scale)
    loads = (SignalName.RUNNING, SignalName.WAITING, SignalName.GPU_UTILIZATION, SignalName.KV_CACHE_USAGE)
    tokens = Value(value.value * 100)
    rates = (SignalName.PROMPT_TOKENS, SignalName.GENERATION_TOKENS, SignalName.REQUEST_RATE)
    return {**dict.fromkeys(loads, value), **dict.fromkeys(rates, tokens)}


@settings(max_examples=40, deadline=None)
@given(loads, st.integers(1, 9), st.sampled_from([30, 240, 420]), st.floats(0.5, 64))
def test_a_constant_load_gives_at_most_one_change(load: float, at_first: int, start: int, per: float) -> None:
    chat = ServicePolicy(CHAT, policy=PolicyName.TARGET, target=TargetPolicy(in_flight_per_replica=per))
    ready = [replica(f"{BASE if number <= 4 else BURST}-{number}") for number in range(1, at_first + 1)]
    world = World(policy(service=chat), *ready, start=start)

    world.run(load, ticks=80)

    assert sum(bool(made.actions) for made in world.history) <= 1


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 10), st.integers(1, 9), st.sampled_from([30, 240, 420]), st.floats(0.05, 0.7))
def test_a_constant_utilisation_never_turns_round(load: float, at_first: int, start: int, below: float) -> None:
    ready = [replica(f"base-{number}") for number in range(1, at_first + 1)]
    world = World(policy(pool(BASE, 1, 9), service=threshold(scale_in_below=below)), *ready, start=start)

    world.run(load, ticks=200)

    assert world.sizes == sorted(world.sizes) or world.sizes == sorted(world.sizes, reverse=True)
    assert not any(made.actions for made in world.history[-40:])


@settings(max_examples=60, deadline=None)
@given(loads, st.integers(0, 12), st.booleans(), replicas(st.just(Value(0.0))), policies())
def test_after_any_part_of_a_plan_planning_again_converges(
    load: float, first: int, remembers: bool, found: list[Replica], made: FleetPolicy
) -> None:
    """A crash after any action, before or after the memory was settled."""
    plain = [replace(one, want=None, deadline=None, since=LONG_AGO, requested_at=NOON) for one in found]
    world = World(made, *plain, start=30)
    broken = plan(world.fleet(load), made, world.memory, NOON)
    world.replicas = applied(world.replicas, broken.actions[:first], NOON)
    world.memory = broken.memory if remembers else replace(world.memory, pools=broken.memory.pools)

    world.run(load, ticks=60, seconds=60)

    assert not any(past.actions for past in world.history[-20:])
    supply = sum(decision.current for decision in world.history[-1].decisions)
    assert supply >= sum(one.min for one in made.pools.values())


@given(replicas(), policies(), memories, st.sampled_from([Mode.ADVISE, Mode.PAUSED]))
def test_other_modes_decide_the_same(found: list[Replica], made: FleetPolicy, memory: Memory, mode: Mode) -> None:
    acting = plan(fleet(*found), made, memory, NOON)
    other = plan(fleet(*found), replace(made, mode=mode), memory, NOON)

    assert other.actions == ()
    assert [one.target for one in other.decisions] == [one.target for one in acting.decisions]
    assert [one.wanted for one in other.decisions] == [one.wanted for one in acting.decisions]


@given(replicas(), policies(), memories, moments)
def test_nothing_remembered_lies_in_the_future(
    found: list[Replica], made: FleetPolicy, memory: Memory, now: datetime
) -> None:
    kept = plan(fleet(*found), made, memory, now).memory

    chat = kept.services[CHAT]
    times = [kept.started_at, kept.at, chat.last_out, chat.last_in, *(at for at, _ in chat.wishes), *chat.flaps]
    assert all(at <= now for at in times if at is not None)
    pauses = [held.until for one in kept.pools.values() for held in one.back_offs.values()]
    assert all(until <= now + timedelta(hours=1) for until in pauses)


@given(st.lists(loads, min_size=1, max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_burst_starts_only_when_base_can_take_no_more(flights: list[float], gaps: list[int]) -> None:
    seen = fleet(*(replica(f"base-{number}", in_flight=load) for number, load in enumerate(flights[:4])))

    made = plan(seen, policy(), Memory(started_at=LONG_AGO), NOON + timedelta(seconds=sum(gaps)))

    base, burst = made.decisions
    assert burst.target == 0 or base.target == 4


def test_a_pool_that_the_fleet_does_not_show_gets_nothing() -> None:
    made = plan(Fleet(NOON, {BURST: PoolView(BURST, ())}), policy(), Memory(), NOON)

    assert made.actions == ()
    assert [one.target for one in made.decisions] == [1, 0]
