"""The fleet as observed: states from what hosts say, signals with their reasons, places that nobody holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fakes.controller_world import (
    BASE,
    BURST,
    H1,
    H2,
    engine,
    fleet_policy,
    host_state,
    own_engine,
    reading,
    record,
    with_ttft,
)

from tidegate.controller.gather import Gathered, gather
from tidegate.controller.hostview import Freshness, Sources
from tidegate.model.fleet import Idle, Replica, ReplicaState, SignalName, Value, Want
from tidegate.model.policy import Flavour
from tidegate.model.reading import EngineState, Gap, HostName, HostReading, Missing
from tidegate.model.records import ReplicaRecord
from tidegate.wire import HostRecord, HostState

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
FRESH = Freshness(view_window=timedelta(seconds=60), stale_after=timedelta(seconds=60))


OWN = replace(record("base-0", H1), id="gpu-1/vllm-a", managed=False, slot=None)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def look(
    states: Mapping[HostName, HostState],
    records: Sequence[ReplicaRecord] = (),
    readings: Mapping[HostName, Sequence[HostReading]] | None = None,
    *,
    seen_ago: float = 5,
    wanted: Mapping[HostName, tuple[int, int]] | None = None,
) -> Gathered:
    hosts = [HostRecord(name, ago(seen_ago), state, revoked=False) for name, state in states.items()]
    sources = Sources(hosts, readings or {}, records, wanted or {})
    return gather(sources, fleet_policy(), FRESH, NOON)


def only(gathered: Gathered, pool: str = "burst") -> Replica:
    (found,) = (view.replicas for name, view in gathered.fleet.pools.items() if name == pool)
    (one,) = found
    return one


# --- states


@pytest.mark.parametrize(
    "state",
    [ReplicaState.BOOTING, ReplicaState.LOADING, ReplicaState.READY, ReplicaState.DRAINING, ReplicaState.FAILED],
)
def test_a_replica_is_in_the_state_that_its_host_reports(state: ReplicaState) -> None:
    """Never in the one that was asked for."""
    asked = record("burst-1", state=ReplicaState.REQUESTED, ready_at=None)

    gathered = look({H2: host_state(4, replicas={"burst-1": state}, seen_at=ago(20))}, [asked])

    assert only(gathered).state is state
    assert gathered.changed[0].since == ago(20)
    assert gathered.changed[0].ready_at == (ago(20) if state is ReplicaState.READY else None)


def test_a_loading_replica_is_ready_when_its_engine_says_so() -> None:
    """The unit's process lives long before the engine serves; the engine has the word."""
    asked = record("burst-1", state=ReplicaState.LOADING, ready_at=None)
    state = host_state(4, replicas={"burst-1": ReplicaState.LOADING}, seen_at=ago(300))
    seen = {H2: [reading(H2, ago(5), [engine("burst-1", ago(5), running=0.0, queue_depth=0.0)])]}

    assert only(look({H2: state}, [asked], seen)).state is ReplicaState.READY


def test_a_silent_host_changes_no_state_and_its_signals_are_stale() -> None:
    """A dead network is no reason to think that engines stopped, nor that they are idle."""
    state = host_state(4, replicas={"burst-1": ReplicaState.FAILED})
    seen = {H2: [reading(H2, ago(30), [engine("burst-1", ago(30), running=3.0)])]}

    gathered = look({H2: state}, [record("burst-1")], seen, seen_ago=61)

    assert only(gathered).state is ReplicaState.READY
    assert not gathered.changed
    assert set(only(gathered).signals.values()) == {Missing(Gap.STALE)}


def test_a_replica_that_the_host_reports_stopped_leaves_the_fleet() -> None:
    """It stays in the store with the moment, for the bill."""
    gathered = look(
        {H2: host_state(4, replicas={"burst-1": ReplicaState.STOPPED}, seen_at=ago(7))}, [record("burst-1")]
    )

    assert gathered.fleet.pools[BURST].replicas == ()
    assert gathered.changed[0].stopped_at == ago(7)


def test_a_unit_that_fails_while_it_is_asked_to_go_has_gone() -> None:
    """What crashes in its drain needs no second command."""
    leaving = record("burst-1", want=Want.DRAIN, state=ReplicaState.DRAINING)

    gathered = look({H2: host_state(4, replicas={"burst-1": ReplicaState.FAILED}, seen_at=ago(7))}, [leaving])

    assert gathered.changed[0].state is ReplicaState.STOPPED


@pytest.mark.parametrize(("knows", "state"), [((3, 8), ReplicaState.STOPPED), ((3, 7), ReplicaState.READY)])
def test_a_replica_gone_from_its_host_is_stopped_once_the_host_knows_the_command(
    knows: tuple[int, int], state: ReplicaState
) -> None:
    """A report from before the command says nothing: the unit may just have been started."""
    going = record("burst-1", want=Want.STOP)

    gathered = look({H2: host_state(4, desired=knows)}, [going], wanted={H2: (3, 8)})

    assert (gathered.changed[0].state if gathered.changed else going.state) is state


def test_a_replica_that_should_run_and_is_not_named_keeps_its_state() -> None:
    """The host has not taken in the command yet, or starts it in a moment; its deadline watches over it."""
    asked = record("burst-1", state=ReplicaState.REQUESTED, ready_at=None)

    assert not look({H2: host_state(4, desired=(3, 8))}, [asked], wanted={H2: (3, 8)}).changed


def test_a_host_clock_that_is_off_cannot_move_a_state_into_the_future_or_before_the_last_one() -> None:
    """The moment of a change is held between the last change and now."""
    asked = record("burst-1", state=ReplicaState.BOOTING, since=ago(30), ready_at=None)
    future = host_state(4, replicas={"burst-1": ReplicaState.READY}, seen_at=NOON + timedelta(hours=1))
    past = host_state(4, replicas={"burst-1": ReplicaState.READY}, seen_at=ago(3600))

    assert look({H2: future}, [asked]).changed[0].since == NOON
    assert look({H2: past}, [asked]).changed[0].since == ago(30)


def test_the_replicas_of_a_revoked_host_are_over() -> None:
    """Nothing will ever be heard of them again, so they count as no supply."""
    sources = Sources([HostRecord(H2, ago(5), host_state(4), revoked=True)], {}, [record("burst-1")])

    gathered = gather(sources, fleet_policy(), FRESH, NOON)

    assert gathered.fleet.pools[BURST].replicas == ()
    assert gathered.fleet.pools[BURST].free_slots == ()


# --- the operator's own engines


def test_an_engine_of_the_operators_own_is_an_unmanaged_replica() -> None:
    """It is supply like any other, under the id HOST/ENGINE, and holds its GPUs."""
    seen = {H1: [reading(H1, ago(5), [engine("vllm-a", ago(5), running=1.0, queue_depth=0.0)])]}

    gathered = look({H1: host_state(2, [own_engine()])}, readings=seen)

    found = only(gathered, "base")
    assert (found.id, found.managed, found.state, found.slot) == ("gpu-1/vllm-a", False, ReplicaState.READY, None)
    assert gathered.changed[0].port == 8000
    assert [slot.slot for slot in gathered.fleet.pools[BASE].free_slots] == [1]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([EngineState.READY, EngineState.UNREACHABLE], ReplicaState.READY),
        ([EngineState.UNREACHABLE, EngineState.UNREACHABLE], ReplicaState.FAILED),
        ([EngineState.READY, EngineState.STARTING], ReplicaState.LOADING),
        ([EngineState.HANGING, EngineState.HANGING], ReplicaState.READY),
    ],
)
def test_one_failed_scrape_of_an_own_engine_is_not_its_end(
    states: Sequence[EngineState], expected: ReplicaState
) -> None:
    """A whole window without an answer is; a hanging engine is still there, with its signals missing."""
    times = [ago(20), ago(5)]
    seen = {H1: [reading(H1, at, [engine("vllm-a", at, state)]) for at, state in zip(times, states, strict=True)]}

    assert only(look({H1: host_state(2, [own_engine()])}, [OWN], seen), "base").state is expected


def test_an_own_engine_that_the_host_no_longer_lists_is_over() -> None:
    """The operator took it out of the configuration."""

    assert look({H1: host_state(2)}, [OWN]).changed[0].state is ReplicaState.STOPPED


def test_an_engine_of_a_pool_that_nobody_declares_is_said_not_counted() -> None:
    """Whatever is left out is named with its remedy."""
    gathered = look({H1: host_state(2, [own_engine(pool="old")])})

    assert gathered.fleet.pools[BASE].replicas == ()
    assert gathered.notes == ("host gpu-1: engine vllm-a names pool 'old', which no [[pool]] declares; not counted",)


# --- signals


def signals_of(*engines: Sequence[object], gpus: Sequence[Sequence[float]] = ()) -> Mapping[SignalName, object]:
    readings = []
    for number, found in enumerate(engines):
        at = ago(15 * (len(engines) - number) - 10)
        row = gpus[number] if gpus else ()
        readings.append(reading(H2, at, [replace(one, at=at) for one in found], row))  # type: ignore[type-var]
    state = host_state(4, replicas={"burst-1": ReplicaState.READY})
    return only(look({H2: state}, [record("burst-1", slot=1, gpus=(1,))], {H2: readings})).signals


def test_requests_are_those_of_the_newest_reading_and_utilisation_is_the_mean_of_the_window() -> None:
    """Requests move between replicas when one is added: a sum of means over unequal pasts would count them twice."""
    found = signals_of(
        [engine("burst-1", NOON, running=2.0, queue_depth=0.0, kv_cache_usage=0.2, steps=1.0)],
        [engine("burst-1", NOON, running=4.0, queue_depth=6.0, kv_cache_usage=0.4, steps=9.0)],
        gpus=[(0.1, 0.5), (0.1, 0.7)],
    )

    age = timedelta(seconds=5)
    assert found[SignalName.RUNNING] == Value(4.0, age)
    assert found[SignalName.WAITING] == Value(6.0, age)
    assert found[SignalName.KV_CACHE_USAGE] == Value(0.4, age)
    assert found[SignalName.GPU_UTILIZATION] == Value(pytest.approx(0.6), age)


def test_rates_and_latencies_are_those_of_the_window() -> None:
    """Of each counter its increase over the time between the first reading and the last; of the buckets the p95."""
    totals = {"prompt_tokens": 1000.0, "generation_tokens": 100.0, "cached_prompt_tokens": 0.0, "finished": 10.0}
    first = with_ttft(engine("burst-1", NOON, running=2.0, queue_depth=0.0, **totals), (0.0, 0.0, 0.0))
    later = {name: total + 150.0 for name, total in totals.items()}
    last = with_ttft(engine("burst-1", NOON, running=2.0, queue_depth=0.0, **later), (0.0, 20.0, 20.0))

    found = signals_of([first], [last])

    age = timedelta(seconds=5)
    assert found[SignalName.PROMPT_TOKENS] == found[SignalName.GENERATION_TOKENS] == Value(10.0, age)
    assert found[SignalName.CACHED_TOKENS] == found[SignalName.REQUEST_RATE] == Value(10.0, age)
    assert found[SignalName.TTFT_P95] == Value(pytest.approx(0.955), age)
    assert found[SignalName.TPOT_P95] == Missing(Gap.NOT_SUPPORTED)


def test_before_a_second_reading_nothing_is_known_of_rates() -> None:
    found = signals_of([engine("burst-1", NOON, running=2.0, queue_depth=0.0, prompt_tokens=5.0)])
    assert found[SignalName.PROMPT_TOKENS] == found[SignalName.TTFT_P95] == Missing(Gap.ONE_SCRAPE)
    assert found[SignalName.RUNNING] == Value(2.0, timedelta(seconds=5))


def test_nothing_asked_and_nothing_moved_is_idle() -> None:
    """Known to be zero is another thing than not known."""
    still = engine("burst-1", NOON, running=0.0, queue_depth=0.0, steps=7.0, generation_tokens=5.0)

    found = signals_of([still], [still])

    assert found[SignalName.RUNNING] == found[SignalName.WAITING] == Idle(timedelta(seconds=5))


def test_zero_now_with_work_done_in_the_window_is_a_value() -> None:
    """The request fell between two scrapes."""
    found = signals_of(
        [engine("burst-1", NOON, running=0.0, queue_depth=0.0, generation_tokens=5.0)],
        [engine("burst-1", NOON, running=0.0, queue_depth=0.0, generation_tokens=50.0)],
    )

    assert found[SignalName.RUNNING] == Value(0.0, timedelta(seconds=5))


def test_gauges_of_an_engine_that_makes_no_progress_are_stale() -> None:
    """A frozen engine goes on showing its last numbers."""
    frozen = engine("burst-1", NOON, running=3.0, queue_depth=2.0, steps=7.0)

    assert signals_of([frozen], [frozen])[SignalName.RUNNING] == Missing(Gap.STALE)


@pytest.mark.parametrize(
    ("state", "gap"), [(EngineState.STARTING, Gap.STARTING), (EngineState.UNREACHABLE, Gap.UNREACHABLE)]
)
def test_an_engine_that_is_not_ready_says_why_its_signals_are_missing(state: EngineState, gap: Gap) -> None:
    """Never zero."""
    found = signals_of([engine("burst-1", NOON, state)], gpus=[(0.1, 0.5)])

    assert found[SignalName.WAITING] == Missing(gap)
    assert found[SignalName.GPU_UTILIZATION] == Value(0.5, timedelta(seconds=5))


def test_a_gpu_that_the_host_does_not_report_is_missing() -> None:
    """The other GPUs do not stand in for it."""
    running = engine("burst-1", NOON, running=1.0, queue_depth=0.0)

    assert signals_of([running], gpus=[(0.9,)])[SignalName.GPU_UTILIZATION] == Missing(Gap.NOT_REPORTED)


# --- places


def test_free_places_are_the_slots_that_nobody_holds() -> None:
    """Slot k takes GPU k and port first_port + k; a failed replica holds its place until it is gone."""
    held = [record("burst-1", slot=0), record("burst-2", slot=2, state=ReplicaState.FAILED)]

    slots = look({H2: host_state(4)}, held).fleet.pools[BURST].free_slots

    assert [(slot.slot, slot.gpus, slot.port) for slot in slots] == [(1, (1,), 8201), (3, (3,), 8203)]


def test_every_flavour_offers_its_places_in_order() -> None:
    base = fleet_policy()
    flavours = (Flavour("spot", "sglang", (H2,)), Flavour("hourly", "vllm", (H1, H2)), Flavour("seen"))
    made = replace(base, pools={**base.pools, BURST: replace(base.pools[BURST], flavours=flavours)})
    hosts = [HostRecord(name, NOON, host_state(2), revoked=False) for name in (H1, H2)]

    slots = gather(Sources(hosts, {}, []), made, FRESH, NOON).fleet.pools[BURST].free_slots

    assert [(slot.flavour, slot.host, slot.slot) for slot in slots] == [
        *(("spot", H2, number) for number in (0, 1)),
        *(("hourly", H1, number) for number in (0, 1)),
        *(("hourly", H2, number) for number in (0, 1)),
    ]


def test_a_gpu_that_is_not_up_offers_no_place() -> None:
    """The host lists three of the four that the configuration declares."""
    assert [slot.slot for slot in look({H2: host_state(3)}).fleet.pools[BURST].free_slots] == [0, 1, 2]


def test_a_host_that_reads_no_gpus_is_trusted_to_have_what_is_declared() -> None:
    """No NVML is no proof of no GPU."""
    assert len(look({H2: host_state(0)}).fleet.pools[BURST].free_slots) == 4


def test_a_silent_host_offers_no_place() -> None:
    """Nothing is started where nobody listens."""
    assert look({H2: host_state(4)}, seen_ago=61).fleet.pools[BURST].free_slots == ()


def test_a_host_with_an_engine_that_does_not_name_its_gpus_offers_no_place_and_says_why() -> None:
    """A replica started on a GPU in use takes both down."""
    gathered = look({H2: host_state(4, [own_engine(gpu_indices=[])])})

    assert gathered.fleet.pools[BURST].free_slots == ()
    assert "gpu_indices" in gathered.notes[0]
