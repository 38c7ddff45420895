"""A body is bounded as a whole, in bytes and in time, however small the parts are in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from tidegate.link.limits import BodyLimit
from tidegate.link.problems import Refused

SCOPE: dict[str, Any] = {"type": "http", "path": "/v1/hosts", "headers": []}


def test_a_body_that_trickles_in_for_ever_is_refused() -> None:
    """Each part comes in time; the whole never does."""

    async def trickle() -> MutableMapping[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    async def send(_message: Any) -> None: ...

    limited = BodyLimit(application, seconds=0.1)
    with pytest.raises(Refused) as refused:
        asyncio.run(limited(dict(SCOPE), trickle, send))
    assert refused.value.status == 408
