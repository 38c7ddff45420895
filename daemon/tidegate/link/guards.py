"""Who asks: bearer tokens, checked by the hash of the token, so that no comparison leaks its beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tidegate.link.controller_api import ControllerApi
from tidegate.link.problems import Refused
from tidegate.runtime.tokens import token_hash

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]

UserGuard = Callable[[HTTPAuthorizationCredentials | None], str]


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
