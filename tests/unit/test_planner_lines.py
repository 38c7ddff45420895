"""The planner's lines: whatever comes in, one line goes out, and what is wrong is named with its place."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from fakes.observations import JSON, Tenant, line, observation, pool, replica, signals
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.decide.plan import plan
from tidegate.link.planner.session import Session
from tidegate.model.decision import Limit
from tidegate.model.fleet import Fleet
from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.model.policy import FleetPolicy, Mode

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "planner.schema.json").read_text())
BARE = Session(plan)


def validator(part: str) -> Any:
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{part}", "$defs": SCHEMA["$defs"]})


PLAN, OBSERVATION, ERROR = validator("plan"), validator("observation"), validator("error")


def answer(found: Any, session: Session = BARE, memory: Memory | None = None) -> JSON:
    raw = found if isinstance(found, bytes) else line(found)
    said = session.turn(raw, 1, memory or Memory()).answer
    assert said.endswith(b"\n")
    assert said.count(b"\n") == 1
    made: JSON = json.loads(said)
    return made


def refusal(found: Any, session: Session = BARE) -> str:
    said = answer(found, session)
    assert ERROR.is_valid(said)
    return str(said["error"])


def changed(path: list[str | int], value: Any) -> JSON:
    """The usual observation with one value changed; `...` takes it away."""
    made: Any = copy.deepcopy(observation())
    at = made
    for part in path[:-1]:
        at = at[part]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return made  # type: ignore[no-any-return]


FIRST: list[str | int] = ["pools", "base", "replicas", 0]
WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (b"", "line 1: the line is empty"),
    "blanks": (b"  \t ", "line 1: the line is empty"),
    "half a line": (line(observation())[:-1], "not JSON"),
    "two objects": (b"{} {}", "column 4: not JSON (Extra data)"),
    "not UTF-8": (b'{"now": "\xff"}', "byte 10: the line is not UTF-8"),
    "a list": (b"[]", "the line: must be an object, not []"),
    "too deep": (b"[" * 100_000, "not JSON that can be read: RecursionError"),
    "a number of too many digits": (b'{"now": 1' + b"0" * 5000 + b"}", "not JSON that can be read: ValueError"),
    "no time": (changed(["now"], ...), "now: is required and missing"),
    "time that is none": (changed(["now"], math.nan), "now: must be seconds since 1970"),
    "a time without end": (changed(["now"], math.inf), "now: must be seconds since 1970"),
    "a time far off": (changed(["now"], 1e12), "not 1000000000000.0"),
    "true for a time": (changed(["now"], True), "now: must be seconds since 1970"),
    "no pools": (changed(["pools"], ...), "pools: is required and missing"),
    "pools in a list": (changed(["pools"], []), "pools: must be an object of pools by name, not []"),
    "no goal": (changed(["slo"], {}), "slo: needs ttft_s or tpot_s, in seconds (or start with --config)"),
    "a goal of no time": (changed(["slo", "ttft_s"], 0), "slo.ttft_s: must be above 0"),
    "a negative goal": (changed(["slo", "tpot_s"], -1), "slo.tpot_s: must be a number, 0 to 86400, not -1"),
    "a goal in words": (changed(["slo", "ttft_s"], "2s"), 'slo.ttft_s: must be a number, 0 to 86400, not "2s"'),
    "a misspelt part": (changed(["budgets"], {"gpus": 1}), 'budgets: is not a key; did you mean "budget"?'),
    "a misspelt key": (changed(["pools", "base", "replica"], []), 'did you mean "replicas"?'),
    "a budget below zero": (changed(["budget"], {"gpus": -1}), "budget.gpus: must be a whole number, 0 to 1000000"),
    "half a GPU": (changed(["budget"], {"gpus": 1.5}), "budget.gpus: must be a whole number"),
    "no bound": (changed(["pools", "base", "min"], ...), "pools.base.min: is required and missing"),
    "a bound below zero": (changed(["pools", "base", "min"], -1), "pools.base.min: must be a whole number, 0 to 10000"),
    "bounds upside down": (changed(["pools", "base", "max"], 1), "pools.base.min: is 2, above max (1)"),
    "an unknown kind": (changed(["pools", "base", "kind"], "spot"), "must be one of base, burst, not"),
    "an unknown role": (changed(["pools", "base", "role"], []), "must be one of mixed, prefill, decode, not []"),
    "no GPUs": (changed(["pools", "base", "gpus_per_replica"], 0), "must be a whole number, 1 to 1024, not 0"),
    "a price below zero": (changed(["pools", "base", "price_per_hour"], -2), "price_per_hour: must be a number"),
    "a ratio upside down": (changed(["pools", "base", "ratio"], [2, 1]), "[least, most] or {min, max}, not [2, 1]"),
    "a ratio of one end": (changed(["pools", "base", "ratio"], {"min": 1}), "pools.base.ratio: must be"),
    "no replicas": (changed(["pools", "base", "replicas"], ...), "pools.base.replicas: is required and missing"),
    "replicas by name": (changed(["pools", "base", "replicas"], {}), "must be an array of at most 10000 replicas"),
    "a replica that is none": (changed(FIRST, 7), "pools.base.replicas[0]: must be an object, not 7"),
    "no id": (changed([*FIRST, "id"], ...), "pools.base.replicas[0].id: must be a text"),
    "no state": (changed([*FIRST, "state"], ...), "pools.base.replicas[0].state: is required and missing"),
    "a state of null": (changed([*FIRST, "state"], None), "pools.base.replicas[0].state: is required and missing"),
    "an unknown state": (changed([*FIRST, "state"], "up"), "must be one of starting, ready, draining, failed"),
    "no since": (changed([*FIRST, "since"], ...), "pools.base.replicas[0].since: must be seconds since 1970"),
    "signals in a list": (changed([*FIRST, "signals"], [1]), "replicas[0].signals: must be an object, not [1]"),
    "one id twice": (changed([*FIRST, "id"], "base-2"), 'pools.base.replicas[1].id: "base-2" stands twice'),
    "one replica in two pools": (
        observation(pools={"a": pool(replica("a-b-1")), "a-b": pool(replica("a-b-1"))}),
        "pools.a-b.replicas[0].id: a-b-1 stands in another pool too",
    ),
}


@pytest.mark.parametrize(("found", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_place(found: Any, told: str) -> None:
    assert told in refusal(found)


def test_every_problem_of_a_line_is_told_at_once_and_a_flood_is_cut() -> None:
    bad = observation(pools={f"p{number}": {"min": -1, "max": 0, "replicas": []} for number in range(30)})
    said = refusal(bad)
    assert said.count("must be a whole number") == 20
    assert said.endswith("and 10 more")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, "12", True, [1], {}])
@pytest.mark.parametrize("name", ["running", "ttft_p95_s"])
def test_a_signal_that_is_no_number_is_missing_and_said_and_ends_nothing(name: str, value: Any) -> None:
    """One broken exporter is nobody else's trouble; missing is not zero."""
    said = answer(changed([*FIRST, "signals"], signals(**{name: value})))
    assert PLAN.is_valid(said)
    assert any(f"pools.base.replicas[0].signals.{name}" in reason for reason in said["reasons"])
    with_null = answer(changed([*FIRST, "signals"], signals(**{name: None})))
    assert without_words(said) == without_words(with_null)


def without_words(said: JSON) -> JSON:
    """What is to be done; the sentence tells the gap by its name."""
    return {name: {**found, "reason": ""} for name, found in said["pools"].items()}


def test_a_key_of_another_version_is_passed_over_and_said() -> None:
    said = answer(changed(["pools", "base", "colour"], "red"))
    (reason,) = said["reasons"]
    assert reason == (
        "pools.base.colour: is not a key of the planner and was passed over"
        " (known: kind, role, min, max, gpus_per_replica, price_per_hour, ratio, replicas)"
    )


def test_what_may_be_left_out_may_be_left_out() -> None:
    bare = {"now": 5, "slo": {"tpot_s": 0.05}, "pools": {"burst": {"min": 0, "max": 1, "replicas": []}}}
    said = answer(bare)
    assert OBSERVATION.is_valid(bare)
    assert PLAN.is_valid(said)
    assert answer({"now": -5, "slo": {"ttft_s": 1}, "pools": {}}) == {"pools": {}, "reasons": []}


def test_ids_come_back_as_they_were_given() -> None:
    """Numbers stay numbers, and two pools may use the same ones."""
    crowd = {name: pool(*(replica(n) for n in range(4)), high=1) for name in ("base", "burst")}
    said = answer(observation(pools=crowd))
    assert all(len(found["victims"]) == 3 for found in said["pools"].values())
    assert all(isinstance(name, int) for found in said["pools"].values() for name in found["victims"])


def test_a_failed_replica_is_no_victim_and_the_reason_knows_why() -> None:
    """It can be neither cancelled nor drained; its place is filled by another pool, or by its own after a while."""
    broken = replica("base-3", "failed", since=990, why="image: pull failed")
    said = answer(observation(pools={"base": pool(replica("base-1"), broken, low=2, high=4)}))
    assert said["pools"]["base"]["victims"] == []
    assert "image: pull failed" in said["pools"]["base"]["reason"]


def test_a_start_that_takes_far_too_long_is_cancelled() -> None:
    late = replica("base-2", "starting", since=-90_000)
    said = answer(observation(pools={"base": pool(replica("base-1"), late, low=2, high=4)}))
    assert said["pools"]["base"]["victims"] == ["base-2"]


def test_names_say_what_a_pool_is_unless_it_is_told() -> None:
    kinds: dict[str, str] = {}

    def remember(fleet: Fleet, policy: FleetPolicy, memory: Memory, now: Any) -> Any:
        kinds.update({name: found.kind.value for name, found in policy.pools.items()})
        return plan(fleet, policy, memory, now)

    pools = {"base": pool(), "burst": pool(), "h100-Burst": pool(), "x": pool(), "y": pool(kind="burst")}
    answer(observation(pools=pools), Session(remember))
    assert kinds == {"base": "base", "burst": "burst", "h100-Burst": "burst", "x": "base", "y": "burst"}


def test_a_fault_of_the_planner_costs_one_line() -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    turn = Session(fail).turn(line(observation()), 7, Memory(started_at=None))
    assert "line 7: a fault in the planner (ZeroDivisionError: division by zero)" in json.loads(turn.answer)["error"]
    assert turn.memory == Memory()


# With a configuration


def configured(mode: Mode = Mode.ADVISE) -> Session:
    from fakes.world import policy
    from fakes.world import pool as policy_pool

    made = policy(policy_pool(low=1, high=3), policy_pool("burst", 0, 1), mode=mode)  # type: ignore[arg-type]
    return Session(plan, made)


def test_the_configurations_limits_hold_and_the_observations_need_not_be_there() -> None:
    crowd = [replica(f"base-{n}", signals=signals(running=100)) for n in range(3)]
    said = answer(
        {"now": 1000, "pools": {"base": {"replicas": crowd, "max": 99}, "burst": {"replicas": []}}}, configured()
    )
    assert {name: found["target"] for name, found in said["pools"].items()} == {"base": 3, "burst": 1}


def test_a_pool_that_the_configuration_does_not_have_is_refused() -> None:
    said = refusal({"now": 1000, "pools": {"brust": {"replicas": []}}}, configured())
    assert said == "line 1: pools.brust: the configuration has no such pool (it has base, burst)"


def test_a_paused_configuration_holds_every_pool() -> None:
    crowd = [replica("base-1", signals=signals(running=500))]
    said = answer({"now": 1000, "pools": {"base": {"replicas": crowd}}}, configured(Mode.PAUSED))
    assert (said["pools"]["base"]["target"], said["pools"]["base"]["victims"]) == (1, [])
    assert Limit.PAUSED.value in said["pools"]["base"]["limits"]


# Properties

JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.binary(max_size=200))
def test_any_bytes_get_one_line(found: bytes) -> None:
    said = answer(found.replace(b"\n", b" "))
    assert ERROR.is_valid(said) or PLAN.is_valid(said)


@given(JUNK)
def test_any_json_gets_one_line(found: Any) -> None:
    said = answer(found)
    assert ERROR.is_valid(said) or PLAN.is_valid(said)


def places(found: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place of a JSON value."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [*([path] if path else []), *(place for key, value in inner for place in places(value, (*path, key)))]


@given(st.sampled_from(places(observation())), JUNK)
def test_junk_anywhere_is_named_or_does_no_harm(place: tuple[str | int, ...], junk: Any) -> None:
    said = answer(changed(list(place), junk))
    assert PLAN.is_valid(said) or ERROR.is_valid(said)
    if "error" in said and isinstance(place[0], str):
        assert place[0] in said["error"]


STATES = st.sampled_from(["starting", "ready", "draining", "failed"])
SIGNAL = st.none() | st.floats(0, 1e6)


@st.composite
def observations(draw: st.DrawFn) -> JSON:
    names = draw(st.lists(st.sampled_from(["base", "burst", "spare", "资源"]), min_size=1, max_size=3, unique=True))
    pools = {}
    for name in names:
        low = draw(st.integers(0, 4))
        count = draw(st.integers(0, 6))
        replicas = [
            replica(
                draw(st.sampled_from([f"{name}-{n}", f"node{n}", n])) if n else n,
                draw(STATES),
                since=draw(st.floats(0, 1e6)),
                signals=draw(st.none() | st.fixed_dictionaries(dict.fromkeys(signals(), SIGNAL))),
            )
            for n in range(count)
        ]
        pools[name] = pool(*replicas, low=low, high=low + draw(st.integers(0, 6)))
    budget = draw(st.none() | st.fixed_dictionaries({"gpus": st.none() | st.integers(0, 20)}))
    return observation(draw(st.floats(0, 1e6)), pools, **({"budget": budget} if budget else {}))


@given(observations())
def test_every_answer_is_a_plan_that_can_be_carried_out(found: JSON) -> None:
    said = answer(found)
    assert OBSERVATION.is_valid(found)
    assert PLAN.is_valid(said)
    assert list(said["pools"]) == list(found["pools"])
    for name, asked in said["pools"].items():
        seen = found["pools"][name]
        ids = {one["id"]: one["state"] for one in seen["replicas"]}
        assert seen["min"] <= asked["target"] <= seen["max"] or "budget" in found
        assert all(ids[victim] in ("starting", "ready") for victim in asked["victims"])
        assert all(ids[back] == "draining" for back in asked["uncordon"])
        assert not set(asked["victims"]) & set(asked["uncordon"])
    budget = (found.get("budget") or {}).get("gpus")
    if budget is not None:
        starts, held = carried_out(found, said)
        assert not starts or held <= budget


def carried_out(found: JSON, said: JSON) -> tuple[int, int]:
    """How many replicas the caller starts, and how many it then holds, those that drain included."""
    starts = held = 0
    for name, asked in said["pools"].items():
        states = {one["id"]: one["state"] for one in found["pools"][name]["replicas"]}
        supply = [
            one for one, state in states.items() if state in ("starting", "ready") and one not in asked["victims"]
        ]
        starts += max(0, asked["target"] - len(supply) - len(asked["uncordon"]))
        held += sum(
            state in ("ready", "draining") or (state == "starting" and one not in asked["victims"])
            for one, state in states.items()
        )
    return starts, held + starts


@pytest.mark.parametrize(
    ("gpus", "both"), [(2, (0, 0)), (5, (0, 0)), (6, (1, 1)), (7, (1, 1)), (9, (1, 1)), (10, (1, 2)), (None, (1, 2))]
)
def test_a_budget_opens_both_phases_or_none(gpus: int | None, both: tuple[int, int]) -> None:
    """One phase alone serves nobody: a prefill replica of two GPUs and a decode replica of four begin together."""
    pools = {
        "pf": pool(low=0, high=4, role="prefill", gpus_per_replica=2, ratio=0.5),
        "dc": pool(low=0, high=4, role="decode", gpus_per_replica=4),
    }
    said = answer(observation(pools=pools, gateway={"waiting": 50, "arrival_rps": 4}, budget={"gpus": gpus}))["pools"]
    assert (said["pf"]["target"], said["dc"]["target"]) == both


def test_a_budget_below_the_minimum_wins() -> None:
    """Never beyond it at any instant: the rest of the minimum waits."""
    two = pool(replica("base-1"), replica("base-2"), low=4, high=4)
    said = answer(observation(pools={"base": two}, budget={"gpus": 3}))
    assert said["pools"]["base"]["target"] == 3
    assert "budget" in said["pools"]["base"]["limits"]
    none = answer(observation(pools={"base": two}, budget={"gpus": 1}))
    assert (none["pools"]["base"]["target"], none["pools"]["base"]["victims"]) == (2, [])


@settings(max_examples=15)
@given(st.lists(st.floats(0, 40), min_size=2, max_size=25))
def test_a_restart_between_any_two_lines_is_invisible_and_the_bytes_are_the_same(rates: list[float]) -> None:
    """Once kept in the process, once through the file's JSON after every line."""
    tenant, steady, restarted = Tenant(), Memory(), Memory()
    for number, rate in enumerate(rates, start=1):
        found = line(tenant.observe(rate))
        one = BARE.turn(found, number, steady)
        other = Session(plan).turn(found, number, restarted)
        assert one.answer == other.answer
        again = memory_from(json.loads(json.dumps(memory_json(other.memory))))
        assert again is not None
        steady, restarted = one.memory, again
        tenant.obey(json.loads(one.answer))


def test_a_caller_who_starts_replicas_under_his_own_names_is_followed_up_and_down() -> None:
    """The target is the count; what he starts shows up as he calls it, and no order is given twice."""
    tenant, memory = Tenant(start_s=120), Memory()
    sizes = []
    for tick in range(400):
        rate = 20.0 if 60 <= tick < 160 else 4.0
        turn = BARE.turn(line(tenant.observe(rate)), tick + 1, memory)
        memory = turn.memory
        tenant.obey(json.loads(turn.answer))
        sizes.append(tenant.supply("base") + tenant.supply("burst"))
    assert max(sizes) <= 12
    assert max(sizes[100:160]) >= 5
    assert sizes[-1] <= 3
