"""The part of /v1 that people and their programs use: status, decisions, endpoints, hosts, users.

Reading needs no token: it says no more than the status page, on an address that is loopback unless the operator
opens it. Commands need an operator's token.
"""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import Depends, FastAPI, Query

from tidegate.link import answers
from tidegate.link import messages as m
from tidegate.link.controller_api import ControllerApi
from tidegate.link.guards import operator_guard
from tidegate.link.problems import RESPONSES, Refused
from tidegate.model.fleet import PoolName
from tidegate.model.reading import HostName
from tidegate.runtime.tokens import new_token, token_hash
from tidegate.wire import Name

_log = structlog.get_logger()


def add_operator_routes(app: FastAPI, api: ControllerApi) -> None:
    """Mount the routes."""
    _add_reading(app, api)
    _add_hosts(app, api)
    _add_users(app, api)


def _add_reading(app: FastAPI, api: ControllerApi) -> None:
    @app.get("/v1/status", tags=["fleet"], responses=RESPONSES)
    def status() -> m.StatusShape:
        """Everything that the status page shows."""
        ready, why = api.ready()
        return answers.status(api.overview(), api.now(), ready=ready, ready_why=why)

    @app.get("/v1/endpoints", tags=["fleet"], responses=RESPONSES)
    def endpoints(service: Annotated[str | None, Query(max_length=253)] = None) -> list[m.EndpointGroup]:
        """The ready replicas that take traffic, in Prometheus' http_sd format; a leaving one is not among them."""
        return [answers.endpoint(found) for found in api.endpoints(service)]

    @app.get("/v1/decisions", tags=["fleet"], responses=RESPONSES)
    def decisions(
        pool: Annotated[Name | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        *,
        changes: Annotated[bool, Query(description="Only decisions that did something.")] = False,
    ) -> list[m.DecisionShape]:
        """The newest decisions first, with the signals that they rested on."""
        found = api.decisions(PoolName(pool) if pool else None, limit, changes_only=changes)
        return [answers.decision(record.decision, record.id) for record in found]


def _add_hosts(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/hosts", tags=["access"], responses={**RESPONSES, 404: _NO_HOST, 409: _HOST_EXISTS})
    def command(command: m.HostCommand, who: str = Depends(operator)) -> m.TokenShape:
        """Enroll a host, give it another token, or revoke it. The token is in the answer and nowhere else."""
        name = HostName(command.name)
        known = any(host.name == name and not host.revoked for host in api.hosts())
        if command.action is m.HostAction.ENROLL and known:
            raise Refused(409, f"host {name} is enrolled already", f"`tidegate host rotate {name}` gives a new token")
        if command.action is not m.HostAction.ENROLL and not known:
            raise Refused(404, f"there is no host {name}", f"`tidegate host enroll {name}` adds it")
        token = "" if command.action is m.HostAction.REVOKE else new_token("tgh")
        if token:
            api.enroll(name, token_hash(token))
        else:
            api.revoke(name)
        _log.info("host command", action=command.action.value, host=name, by=who)
        return m.TokenShape(name=name, token=token, done=_DONE[command.action])

    @app.get("/v1/hosts", tags=["access"], responses=RESPONSES)
    def hosts() -> list[m.EnrolledShape]:
        """Every host that was ever enrolled."""
        return [m.EnrolledShape(name=h.name, last_seen=h.last_seen, revoked=h.revoked) for h in api.hosts()]


_NO_HOST = {"description": "There is no such host."}
_HOST_EXISTS = {"description": "The host is enrolled already."}
_DONE = {
    m.HostAction.ENROLL: "enrolled",
    m.HostAction.ROTATE: "given a new token; the old one no longer works",
    m.HostAction.REVOKE: "revoked",
}


def _add_users(app: FastAPI, api: ControllerApi) -> None:
    operator = operator_guard(api)

    @app.post("/v1/users", tags=["access"], responses=RESPONSES)
    def add(command: m.UserCommand, who: str = Depends(operator)) -> m.TokenShape:
        """Add a user, or give him another token and role."""
        token = new_token("tgu")
        fresh = api.add_user(command.name, command.role.value, token_hash(token))
        _log.info("user command", user=command.name, role=command.role.value, by=who)
        return m.TokenShape(name=command.name, token=token, done="added" if fresh else "given a new token")
