"""What waits at the front door of a service: read from the routers that its operator lets an agent read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from tidegate.controller.hostview import EngineView, HostView
from tidegate.model.fleet import Gateway, ServiceName, Signal, Value
from tidegate.model.policy import FleetPolicy
from tidegate.model.reading import Counter, EngineName, Gap, Gauge, HostName, Missing, Number
from tidegate.model.vocabulary import EngineKind
from tidegate.model.window import EngineWindow, gauge

_GATEWAYS = frozenset(kind.value for kind in EngineKind if kind.is_gateway)
_AT_ONCE = timedelta()


def gateways(
    views: Mapping[HostName, HostView], policy: FleetPolicy, stale_after: timedelta, now: datetime
) -> Mapping[ServiceName, Gateway]:
    """The front door of each service that has one in sight; of several routers the sum, missing when one is.

    A router that names no service stands in front of the only one; where there are several it says nothing of any.
    """
    found: dict[ServiceName, list[Gateway]] = {}
    for view in views.values():
        for service, engine in _routers(view, policy):
            found.setdefault(service, []).append(_gateway(view, engine, stale_after, now))
    return {service: _together(doors) for service, doors in found.items()}


def _routers(view: HostView, policy: FleetPolicy) -> Iterator[tuple[ServiceName, EngineView | None]]:
    for engine in view.own_engines():
        if engine.kind in _GATEWAYS:
            service = ServiceName(engine.service)
            if not engine.service and len(policy.services) == 1:
                service = next(iter(policy.services))
            if service in policy.services:
                yield service, view.engines.get(EngineName(engine.name))


def _gateway(view: HostView, engine: EngineView | None, stale_after: timedelta, now: datetime) -> Gateway:
    if not view.heard or engine is None or not view.readings or now - view.readings[-1].at > stale_after:
        return Gateway(Missing(Gap.STALE), Missing(Gap.STALE))
    age = max(_AT_ONCE, now - view.readings[-1].at)
    if engine.gap is not None:
        return Gateway(Missing(engine.gap), Missing(engine.gap))
    waiting = gauge(engine.readings[-1], Gauge.GATEWAY_QUEUE)
    return Gateway(_signal(waiting, age), _signal(_arrivals(engine.window), age))


def _arrivals(window: EngineWindow | Missing) -> Number:
    if isinstance(window, Missing):
        return window
    if Counter.REQUESTS not in window.increases or window.seconds <= 0:
        return Missing(Gap.NOT_SUPPORTED)
    return window.increases[Counter.REQUESTS] / window.seconds


def _together(doors: list[Gateway]) -> Gateway:
    return Gateway(_sum(door.waiting for door in doors), _sum(door.arrival_rate for door in doors))


def _sum(signals: Iterable[Signal]) -> Signal:
    total, age = 0.0, _AT_ONCE
    for signal in signals:
        if isinstance(signal, Missing):
            return signal
        if isinstance(signal, Value):
            total += signal.value
        age = max(age, signal.age)
    return Value(total, age)


def _signal(number: Number, age: timedelta) -> Signal:
    return number if isinstance(number, Missing) else Value(number, age)
