"""The configured policy as operators' commands have it now, and what other programs wish. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from tidegate.model.command import Command, CommandKind, ExternalWish
from tidegate.model.fleet import ServiceName, Signal, Value
from tidegate.model.policy import Control, ControlKind, FleetPolicy, Mode, PolicyName
from tidegate.model.reading import Gap, Missing

_CONTROLS = {
    CommandKind.PAUSE_OUT: ControlKind.PAUSE_OUT,
    CommandKind.PAUSE_IN: ControlKind.PAUSE_IN,
    CommandKind.BOUNDS: ControlKind.BOUNDS,
}


def governed(policy: FleetPolicy, commands: Iterable[Command], now: datetime) -> FleetPolicy:
    """The policy with the commands in force: the mode given last, and a control for each other one."""
    standing = [command for command in commands if command.stands(now)]
    controls = tuple(_control(command) for command in standing if command.order.kind in _CONTROLS)
    return replace(policy, mode=mode_of(policy.mode, standing), controls=controls)


def mode_of(configured: Mode, standing: Iterable[Command]) -> Mode:
    """The mode that was commanded last, else the configured one."""
    modes = [command.order.mode for command in standing if command.order.kind is CommandKind.MODE]
    return modes[-1] if modes and modes[-1] is not None else configured


def _control(command: Command) -> Control:
    order = command.order
    return Control(_CONTROLS[order.kind], order.pool, order.until, order.minimum, order.maximum, order.by)


def external_wishes(policy: FleetPolicy, wishes: Iterable[ExternalWish], now: datetime) -> Mapping[ServiceName, Signal]:
    """What other programs ask for, of the services that follow one; a wish that has run out is stale.

    One that names its own end counts until then, however old it is; its age is then shown as no more than what the
    policy allows.
    """
    said = {wish.service: wish for wish in wishes}
    return {
        name: _signal(said.get(name), policy, now)
        for name, service in policy.services.items()
        if service.policy is PolicyName.EXTERNAL
    }


def _signal(wish: ExternalWish | None, policy: FleetPolicy, now: datetime) -> Signal:
    if wish is None:
        return Missing(Gap.NOT_REPORTED)
    longest = policy.services[wish.service].external.stale_after
    age = max(now - wish.at, now - now)
    if wish.until is None:
        return Missing(Gap.STALE) if age > longest else Value(wish.replicas, age)
    return Missing(Gap.STALE) if wish.until <= now else Value(wish.replicas, min(age, longest))
