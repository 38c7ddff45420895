"""The part of /v1 about pools: why each has its size, and what operators and other programs command.

Each command is written with the user's name before it is answered; the next tick follows it, whoever leads.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import structlog
from fastapi import Depends, FastAPI, Query
from pydantic import AwareDatetime

from tidegate.link import pool_answers as answers
from tidegate.link import pool_messages as m
from tidegate.link.controller_api import ControllerApi
from tidegate.link.guards import operator_guard
from tidegate.link.problems import RESPONSES, Refused
from tidegate.model.command import CommandKind, ExternalWish, Order
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.overview import PoolOverview
from tidegate.model.policy import PolicyName
from tidegate.wire import Name

_log = structlog.get_logger()

_LONGEST_FIGURES = timedelta(hours=1)
_LAST_YEAR = 2200
_NONE = {"description": "There is no such pool or service."}
_ANOTHER_POLICY = {"description": "The service is not sized by wishes."}
_PAUSES = frozenset({CommandKind.PAUSE_IN, CommandKind.PAUSE_OUT})


def add_pool_routes(app: FastAPI, api: ControllerApi) -> None:
    """Mount the routes."""
    _add_reading(app, api)
    _add_past(app, api)
    _add_pauses(app, api)
    _add_bounds(app, api)
    _add_mode(app, api)
    _add_wishes(app, api)


def _add_reading(app: FastAPI, api: ControllerApi) -> None:
    @app.get("/v1/pools", tags=["fleet"], responses=RESPONSES)
    def pools() -> list[m.ExplanationShape]:
        """Every pool: why it has the size that it has."""
        overview, now = api.overview(), api.now()
        return [answers.explanation(pool, overview, now) for pool in overview.pools]

    @app.get("/v1/pools/{pool}", tags=["fleet"], responses={**RESPONSES, 404: _NONE})
    def explain(pool: Name) -> m.ExplanationShape:
        """One pool: what was wanted, what bound it, when it may change, what was learned, who commanded what."""
        return answers.explanation(_known(api, pool), api.overview(), api.now())

    @app.get("/v1/commands", tags=["fleet"], responses=RESPONSES)
    def commands(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> list[m.CommandShape]:
        """Operators' commands, the newest first, ended ones too: who gave and who ended each."""
        return [answers.command(found, api.now()) for found in api.commands(limit)]


def _add_past(app: FastAPI, api: ControllerApi) -> None:
    @app.get("/v1/figures", tags=["fleet"], responses=RESPONSES)
    def figures(
        since: Annotated[AwareDatetime, Query()], until: Annotated[AwareDatetime, Query()]
    ) -> list[m.RecordedShape]:
        """Every pool's figures at every tick with since <= at < until, an hour at most; oldest first."""
        if not (since.year < _LAST_YEAR and since < until <= since + _LONGEST_FIGURES):
            raise Refused(422, "`since` must be before `until`, by an hour at most", "ask for one hour after the other")
        return [m.RecordedShape.model_validate(row, from_attributes=True) for row in api.figures(since, until)]


def _add_pauses(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/pools/{pool}/pause", tags=["command"], responses={**RESPONSES, 404: _NONE})
    def pause(pool: Name, command: m.PauseCommand, who: str = Depends(operator)) -> m.DoneShape:
        """Keep a pool's size: it is still looked at, decided and shown, and nothing is done."""
        name = _known(api, pool).policy.name
        if not command.growing and not command.shrinking:
            raise Refused(422, "neither growing nor shrinking is to be paused", "leave both out to pause the pool")
        until = _until(api, command.for_seconds)
        kinds = [CommandKind.PAUSE_OUT] * command.growing + [CommandKind.PAUSE_IN] * command.shrinking
        api.give([Order(kind, who, name, until=until) for kind in kinds])
        _log.info("pool command", action="pause", pool=name, by=who, kinds=[kind.value for kind in kinds], until=until)
        what = "" if len(kinds) > 1 else " growing" if command.growing else " shrinking"
        return m.DoneShape(done=f"{name} is paused{' from' * bool(what)}{what}{_end(until)}")

    @app.post("/v1/pools/{pool}/resume", tags=["command"], responses={**RESPONSES, 404: _NONE})
    def resume(pool: Name, who: str = Depends(operator)) -> m.DoneShape:
        """End a pool's pauses."""
        name = _known(api, pool).policy.name
        ended = api.end(_PAUSES, name, who)
        _log.info("pool command", action="resume", pool=name, by=who, ended=ended)
        return m.DoneShape(done=f"{name} is resumed" if ended else f"{name} was not paused")


def _add_bounds(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/pools/{pool}/bounds", tags=["command"], responses={**RESPONSES, 404: _NONE})
    def bounds(pool: Name, command: m.BoundsCommand, who: str = Depends(operator)) -> m.DoneShape:
        """Give a pool other bounds for a time; budget and places still hold."""
        policy = _known(api, pool).policy
        low, high = command.min, command.max
        if low is None and high is None:
            raise Refused(422, "no bound is given", "give min, max or both")
        least, most = policy.min if low is None else low, policy.max if high is None else high
        if least > most:
            raise Refused(422, f"min ({least}) is above max ({most})", "give both")
        until = _until(api, command.for_seconds)
        api.give([Order(CommandKind.BOUNDS, who, policy.name, minimum=low, maximum=high, until=until)])
        _log.info("pool command", action="bounds", pool=policy.name, by=who, min=low, max=high, until=until)
        return m.DoneShape(done=f"{policy.name} has {least} to {most} replicas{_end(until)}")

    @app.delete("/v1/pools/{pool}/bounds", tags=["command"], responses={**RESPONSES, 404: _NONE})
    def unbound(pool: Name, who: str = Depends(operator)) -> m.DoneShape:
        """Give a pool its configured bounds again."""
        name = _known(api, pool).policy.name
        ended = api.end({CommandKind.BOUNDS}, name, who)
        _log.info("pool command", action="unbound", pool=name, by=who, ended=ended)
        return m.DoneShape(done=f"{name} has its configured bounds{' again' if ended else ''}")


def _add_mode(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/mode", tags=["command"], responses=RESPONSES)
    def mode(command: m.ModeCommand, who: str = Depends(operator)) -> m.DoneShape:
        """Set another mode than the configured one, or (null) go back to that."""
        until = _until(api, command.for_seconds)
        if command.mode is None:
            api.end({CommandKind.MODE}, None, who)
        else:
            api.give([Order(CommandKind.MODE, who, mode=command.mode, until=until)])
        _log.info("mode command", mode=command.mode, by=who, until=until)
        if command.mode is None:
            return m.DoneShape(done="the mode is the configured one")
        return m.DoneShape(done=f"the mode is {command.mode}{_end(until)}")


def _add_wishes(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post(
        "/v1/services/{service}/wish", tags=["command"], responses={**RESPONSES, 404: _NONE, 409: _ANOTHER_POLICY}
    )
    def wish(service: Name, command: m.WishCommand, who: str = Depends(operator)) -> m.DoneShape:
        """Say how many replicas a service under the policy `external` should have; the guards stay ours."""
        policies = {pool.policy.service: pool.sized_by for pool in api.overview().pools}
        name = ServiceName(service)
        if name not in policies:
            raise Refused(404, f"there is no service {service}", f"one of {', '.join(policies) or 'none yet'}")
        if policies[name] is not PolicyName.EXTERNAL:
            raise Refused(409, f"{service} is sized by {policies[name]}", 'set policy = "external" of the service')
        until = _until(api, command.for_seconds)
        api.ask(ExternalWish(name, command.replicas, api.now(), who, until))
        return m.DoneShape(done=f"{command.replicas} replicas of {service} are wished for{_end(until)}")


def _known(api: ControllerApi, name: str) -> PoolOverview:
    pools = api.overview().pools
    found = next((pool for pool in pools if pool.policy.name == PoolName(name)), None)
    if found is None:
        there = ", ".join(pool.policy.name for pool in pools)
        raise Refused(404, f"there is no pool {name}", f"one of {there}" if there else "no tick has gone through yet")
    return found


def _until(api: ControllerApi, seconds: float | None) -> datetime | None:
    return None if seconds is None else api.now() + timedelta(seconds=seconds)


def _end(until: datetime | None) -> str:
    return "" if until is None else f" until {until:%Y-%m-%d %H:%M:%S} UTC"
