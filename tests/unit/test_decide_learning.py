"""What the core learns: capacity, forecasts and how sure they are; and the policies that learn nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from fakes.tide import Tide, by_objective
from fakes.world import BASE, BURST, CHAT, LONG_AGO, NOON, decision, fleet, kinds, policy, pool, replica
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.decide import capacity
from tidegate.decide.capacity import learned
from tidegate.decide.failure import failure_class
from tidegate.decide.flow import Sample
from tidegate.decide.forecast import CELLS, Outlook, ahead, observed
from tidegate.decide.misses import STEP, STEPS, Curve, curve, overall_misses
from tidegate.decide.plan import plan
from tidegate.decide.yardstick import fitted, quick, with_paces
from tidegate.model.decision import Limit
from tidegate.model.fleet import FailureClass, Fleet, Idle, PoolView, ReplicaState, Signal, Slot, Value
from tidegate.model.memory import Capacity, Forecast, Memory
from tidegate.model.policy import ExternalPolicy, Flavour, PolicyName, SchedulePolicy, ServicePolicy, SloPolicy
from tidegate.model.reading import Gap, HostName, Missing

SLO = SloPolicy()
SEEN = Memory(started_at=LONG_AGO)
IDLE_TPOT, PER_PROMPT, PER_ANSWER = 0.018, 85e-6, 0.21e-3
"""Of an engine whose steps take t0 / (1 - work)."""


def sample(work: float, random: Random, mix: float = 6.0) -> Sample:
    """What such an engine says at this much work."""
    answer = work / (PER_ANSWER + mix * PER_PROMPT)
    tpot = IDLE_TPOT / (1.0 - work) * random.uniform(0.95, 1.05)
    return Sample(mix * answer, answer, answer * tpot, 0.0, 0.2, answer / 200.0, 0.3, tpot, warm=True)


@pytest.mark.parametrize("mixes", [(6.0,), (2.0, 12.0)])
def test_capacity_is_learned_from_light_load_alone(mixes: tuple[float, ...]) -> None:
    """Nothing was ever near its limit, 70 % of work, and the load is right within a sixth of it."""
    random, capacity = Random(4), Capacity()
    for tick in range(400):
        seen = [sample(random.uniform(0.1, 0.45), random, mixes[tick % len(mixes)]) for _ in range(4)]
        capacity = learned(capacity, seen, SLO, 15.0)
    found = fitted(capacity, SLO)
    assert found is not None
    for mix in mixes:
        full = replace(sample(1.0 - IDLE_TPOT / SLO.tpot_s, random, mix))
        assert found.load(full) == pytest.approx(1.0, abs=0.17)


def test_a_fit_without_traffic_says_nothing() -> None:
    assert fitted(Capacity(), SLO) is None
    idle = Sample(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None, 0.02, warm=True)
    assert fitted(learned(Capacity(), [idle] * 4, SLO, 15.0), SLO) is None


def lumps(tick: int, place: int, late: float, random: Random) -> tuple[Sample, float]:
    """A replica with long prompts, of which a part counts when they end, a tick after answers were slow; its work."""
    works = [0.57 if (at + place) % 3 else 0.02 for at in (tick, tick - 1)]
    found = sample(works[0], random)
    prompt = 5200.0 * ((1.0 - late) * works[0] + late * works[1]) / 0.57
    return replace(found, prompt=prompt, answer=12.0, running=max(1.0, 12.0 * (found.tpot or 0.0))), works[0]


@pytest.mark.parametrize("late", [0.8, 1.0])
def test_prompts_that_are_counted_when_they_end_hide_no_load(late: float) -> None:
    """Errors in what is regressed on flatten the slopes; that engines were seen to answer fast sets them right."""
    random, capacity, works, loads = Random(5), Capacity(), list[float](), list[Sample]()
    for tick in range(400):
        for one, work in (seen := [lumps(tick, place, late, random) for place in range(4)]):
            works.append(work)
            loads.append(one)
        capacity = learned(capacity, [one for one, _ in seen], SLO, 15.0)
    truth = sum(works) / len(works) / (1.0 - IDLE_TPOT / SLO.tpot_s)
    found, flat = fitted(capacity, SLO), fitted(replace(capacity, paces=()), SLO)
    assert flat is None or sum(map(flat.load, loads)) / len(loads) < 0.75 * truth
    assert found is not None
    assert sum(map(found.load, loads)) / len(loads) == pytest.approx(truth, rel=0.15)


@given(st.lists(st.tuples(st.floats(0, 1e-3), st.floats(0, 1e-3), st.floats(0.001, 10)), min_size=24, max_size=60))
@example([(0.0, 5e-324, 0.02)] * 24 + [(0.0, 5e-324, 0.2)] * 24)
def test_hardly_any_tokens_give_no_absurd_unit(found: list[tuple[float, float, float]]) -> None:
    """Nor one that is no number: what a token costs cannot be told from next to none."""
    capacity = Capacity()
    for prompt, answer, tpot in found:
        one = Sample(prompt, answer, 1.0, 0.0, 0.0, 0.1, 0.3, tpot, warm=True)
        capacity = learned(capacity, [one], SLO, 15.0)
    assert all(map(math.isfinite, capacity.unit))
    assert all(math.isfinite(value) for pair in capacity.bins for value in pair)


@given(st.lists(st.floats(0.01, 1000), min_size=24, max_size=80))
def test_one_sample_in_twenty_is_faster_than_quick(speeds: list[float]) -> None:
    one = Sample(0.0, 100.0, 4.0, 0.0, 0.0, 1.0, 0.3, 0.02, warm=True)
    found = quick(Capacity(paces=with_paces((), [(one, speed) for speed in speeds], 1.0)))
    below = sum(speed <= found * 1.16 or found > 33.0 for speed in speeds)
    assert below >= 0.95 * len(speeds) - 1e-9
    assert quick(Capacity(paces=with_paces((), [(one, 2.0)] * 23, 1.0))) == 0.0
    assert quick(Capacity(paces=with_paces((), [(replace(one, answer=0.0), 2.0)] * 30, 1.0))) == 0.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1)), min_size=STEPS, max_size=STEPS))
def test_more_load_never_misses_less(found: list[tuple[float, float]]) -> None:
    shares = curve(Capacity(bins=tuple((seen, seen * part) for seen, part in found)), SLO)
    values = [shares.at(place * STEP / 2) for place in range(2 * STEPS + 4)]
    assert values == sorted(values)
    assert 0.0 <= values[0] <= values[-1] <= 1.0


def test_a_curve_that_never_misses_has_no_limit_but_its_end() -> None:
    assert Curve((0.0,) * STEPS).limit(0.02) == STEP * STEPS
    assert Curve((0.5,) * STEPS).limit(0.02) == STEP
    assert overall_misses(Capacity()) == pytest.approx(0.01)


def test_a_forecast_learns_how_wrong_it_is() -> None:
    """A steady load asks for next to no margin, one that jumps within the horizon for its jump."""

    def after(loads: list[float]) -> Outlook:
        forecast, now = Forecast(), NOON
        for load in loads:
            now += timedelta(seconds=15)
            forecast = observed(forecast, load, 240.0, now)
        return ahead(forecast, loads[-1], 240.0, now)

    steady = after([4.0] * 480)
    jumping = after([6.0 if tick % 20 < 4 else 4.0 for tick in range(480)] + [4.0] * 6)
    assert steady.peak(0.95) < 4.6
    assert jumping.peak(0.97) > 5.5
    assert jumping.peak(1.1) == jumping.most
    assert sum(steady.weights) == pytest.approx(1.0)
    assert len(steady.weights) == CELLS


def test_a_shrinking_proof_keeps_the_ready_ones_that_carry_the_load_of_now() -> None:
    """Burst would empty first, and base is still starting: what serves now stays until something else does."""
    world = Tide(by_objective(pool(BASE, 2, 4), pool(BURST, 0, 8)), *(replica(f"burst-{n}") for n in range(1, 5)))
    world.policy = by_objective(pool(BASE, 0, 4), pool(BURST, 0, 8))
    world.warmed(2.4)
    ready = [one for one in world.replicas if one.state is ReplicaState.READY]
    starting = [replica(f"base-{n}", ReplicaState.LOADING, since=world.now, managed=False) for n in range(21, 25)]
    world.replicas = [*ready, *starting]
    world.start = timedelta(days=1)
    world.run(2.4, ticks=60)
    left = sum(one.state is ReplicaState.READY for one in world.replicas)
    assert left >= 3
    assert any(Limit.PROOF in decision(made, BURST).limits for made in world.history)


@pytest.mark.parametrize(
    ("said", "wanted", "word"),
    [
        (Value(3.0), 3, "is to have 3 by an external program"),
        (Value(2.2), 3, "is to have 3 by an external program"),
        (Idle(), 0, "is to have 0"),
        (Value(9.0, timedelta(minutes=10)), 1, "hears nothing"),
        (Missing(Gap.UNREACHABLE), 1, "hears nothing"),
        (Value(float("nan")), 1, "hears nothing"),
    ],
)
def test_an_external_program_is_followed_while_it_is_fresh(said: Signal, wanted: int, word: str) -> None:
    made = policy(pool(BASE, 0, 4), service=ServicePolicy(CHAT, policy=PolicyName.EXTERNAL))
    seen = replace(fleet(replica("base-1", in_flight=1)), external={CHAT: said})
    answer = plan(seen, made, SEEN, NOON)
    assert decision(answer, BASE).wanted == wanted
    assert word in decision(answer, BASE).reason


def test_an_external_program_that_is_silent_has_a_fallback_that_only_grows() -> None:
    service = ServicePolicy(CHAT, policy=PolicyName.EXTERNAL, external=ExternalPolicy(fallback=2))
    made = policy(pool(BASE, 0, 4), service=service)
    assert kinds(plan(fleet(replica("base-1")), made, SEEN, NOON)) == ["start base-2"]
    assert kinds(plan(fleet(*(replica(f"base-{n}") for n in (1, 2, 3))), made, SEEN, NOON)) == []


def test_a_schedule_is_kept_whatever_the_load() -> None:
    service = ServicePolicy(CHAT, policy=PolicyName.SCHEDULE, schedule=SchedulePolicy(replicas=3))
    made = plan(fleet(replica("base-1", in_flight=99)), policy(pool(BASE, 0, 4), service=service), SEEN, NOON)
    assert kinds(made) == ["start base-2", "start base-3"]
    assert "chat is scheduled for 3" in decision(made, BASE).reason


def test_an_actuator_that_knows_why_is_believed() -> None:
    lost = replica("base-1", ReplicaState.FAILED, failure=FailureClass.SOLD_OUT, why="quota exceeded")
    assert failure_class(lost) is FailureClass.SOLD_OUT
    assert failure_class(replace(lost, failure=None)) is FailureClass.QUOTA
    assert failure_class(replace(lost, failure=None, why="")) is FailureClass.HEALTH


def test_a_flavours_own_quota_sends_the_rest_to_the_next_one() -> None:
    """E6: two of the preferred, then the next in the same tick, and the decision says that one was passed over."""
    near, far = Flavour("near", gpu_limit=2), Flavour("far")
    made = policy(pool(BASE, 4, 4, flavours=(near, far)))
    places = [
        Slot(HostName(name), place, (place,), 8100 + place, name) for name in ("near", "far") for place in (1, 2, 3)
    ]
    answer = plan(Fleet(NOON, {BASE: PoolView(BASE, (), tuple(places))}), made, SEEN, NOON)
    assert [action.slot.flavour for action in answer.actions if action.slot] == ["near", "near", "far", "far"]
    assert Limit.FLAVOUR in decision(answer, BASE).limits


def test_a_tpot_of_almost_nothing_is_not_slow() -> None:
    """As an engine may say that has answered one token."""
    quickest = Sample(10.0, 10.0, 0.0, 0.0, 0.0, 1.0, 0.1, 1e-90, warm=True)
    assert capacity._slow(quickest, SLO) == 0.0
