"""What waits at the front door: read from routers, by service, summed, and missing when one of them is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.controller_world import CHAT, H1, H2, R0, fleet_policy, host_state, own_engine, reading
from fakes.world import NOON

from tidegate.controller.gateways import gateways
from tidegate.controller.hostview import Freshness, Sources, host_views
from tidegate.model.fleet import Gateway, ServiceName, Value
from tidegate.model.policy import FleetPolicy, ServicePolicy
from tidegate.model.reading import (
    Counter,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    HostName,
    Missing,
)
from tidegate.wire import HostRecord

FRESH = Freshness(timedelta(seconds=60), timedelta(seconds=60))
TWO = replace(
    fleet_policy(), services={CHAT: ServicePolicy(CHAT), ServiceName("code"): ServicePolicy(ServiceName("code"))}
)


def router(
    at: float, requests: float, waiting: float | None = 0.0, state: EngineState = EngineState.READY
) -> EngineReading:
    """One look at a router, `at` seconds ago."""
    gauges = {} if waiting is None else {(Gauge.GATEWAY_QUEUE, R0): waiting}
    counters = {(Counter.REQUESTS, R0): requests}
    when = NOON - timedelta(seconds=at)
    return EngineReading(EngineName("router"), EngineKind.SGLANG_ROUTER, state, when, gauges, counters)


def door(
    *looks: EngineReading, host: HostName = H1, service: str = "chat", heard: float = 5
) -> tuple[HostRecord, tuple[HostName, list[object]]]:
    """A host whose agent reads a router."""
    engine = own_engine("router", pool="", service=service, kind="sglang-router", gpus=0)
    record = HostRecord(host, NOON - timedelta(seconds=heard), host_state(1, [engine]), revoked=False)
    return record, (host, [reading(host, look.at, [look]) for look in looks])


def seen(
    *doors: tuple[HostRecord, tuple[HostName, list[object]]], policy: FleetPolicy | None = None
) -> dict[ServiceName, Gateway]:
    readings = dict(found for _, found in doors)
    sources = Sources([record for record, _ in doors], readings, [])  # type: ignore[arg-type]
    found = gateways(host_views(sources, FRESH, NOON), policy or fleet_policy(), FRESH.stale_after, NOON)
    return dict(found)


def test_the_queue_and_the_arrivals_of_a_router() -> None:
    (found,) = seen(door(router(35, 100), router(5, 160, waiting=7))).values()
    age = timedelta(seconds=5)
    assert found == Gateway(Value(7.0, age), Value(2.0, age))


def test_two_routers_are_added_up_and_one_that_is_silent_makes_the_sum_missing() -> None:
    both = [door(router(35, 0), router(5, 30, waiting=1)), door(router(35, 0), router(5, 60, waiting=2), host=H2)]
    assert seen(*both)[CHAT].waiting == Value(3.0, timedelta(seconds=5))
    assert seen(*both)[CHAT].arrival_rate == Value(3.0, timedelta(seconds=5))
    silent = door(router(35, 0), router(5, 60), host=H2, heard=90)
    assert seen(both[0], silent)[CHAT] == Gateway(Missing(Gap.STALE), Missing(Gap.STALE))


@pytest.mark.parametrize(
    ("looks", "waiting", "arrivals"),
    [
        ([router(5, 100, waiting=4)], Value(4.0, timedelta(seconds=5)), Missing(Gap.ONE_SCRAPE)),
        ([router(35, 1), router(5, 2, waiting=None)], Missing(Gap.NOT_SUPPORTED), Value(1 / 30, timedelta(seconds=5))),
        (
            [router(35, 1), router(5, 2, state=EngineState.UNREACHABLE)],
            Missing(Gap.UNREACHABLE),
            Missing(Gap.UNREACHABLE),
        ),
    ],
)
def test_what_a_router_does_not_say_is_missing(looks: list[EngineReading], waiting: object, arrivals: object) -> None:
    found = seen(door(*looks))[CHAT]
    assert (found.waiting, found.arrival_rate) == (waiting, arrivals)


def test_a_router_belongs_to_the_service_it_names_or_to_the_only_one() -> None:
    named = door(router(35, 0), router(5, 30), service="code")
    assert list(seen(named, policy=TWO)) == ["code"]
    nameless = door(router(35, 0), router(5, 30), service="")
    assert list(seen(nameless)) == [CHAT]
    assert seen(nameless, policy=TWO) == {}
    assert seen(door(router(35, 0), router(5, 30), service="legacy")) == {}
