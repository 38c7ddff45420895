"""Who asks: bearer tokens, checked by the hash of the token, so that no comparison leaks its beginning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from tidegate.link.controller_api import ControllerApi
from tidegate.link.problems import Refused
from tidegate.model.reading import HostName
from tidegate.runtime.tokens import token_hash

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]

HostGuard = Callable[[HTTPAuthorizationCredentials | None], Awaitable[HostName]]
UserGuard = Callable[[HTTPAuthorizationCredentials | None], str]


def host_guard(api: ControllerApi) -> HostGuard:
    """A dependency that answers the host whose token was sent; 401 when it is nobody's or revoked."""

    async def host_of(credentials: Credentials) -> HostName:
        host = None
        if credentials:  # a thread only for a question to the database: hundreds of hosts ask each second
            token = token_hash(credentials.credentials)
            host = api.trusted_host(token) or await run_in_threadpool(api.host_of, token)
        if host is None:
            api.refused("unauthorized")
            raise Refused(
                401,
                "no host has this token" if credentials else "a host token is needed",
                "`tidegate host enroll NAME` prints one; put it into the agent's token_file",
            )
        return host

    return host_of


def operator_guard(api: ControllerApi) -> UserGuard:
    """A dependency that answers the operator's name; 401 without a user's token, 403 with a viewer's."""

    def operator_of(credentials: Credentials) -> str:
        user = api.user_of(token_hash(credentials.credentials)) if credentials else None
        if user is None:
            raise Refused(
                401,
                "no user has this token" if credentials else "an operator token is needed",
                "the first one is in operator.token in the controller's state folder; `tidegate user add` makes more",
            )
        name, role = user
        if role != "operator":
            raise Refused(403, f"{name} is a {role}: only an operator may do this", "ask an operator")
        return name

    return operator_of
