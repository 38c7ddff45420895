"""Reports that come at the same time are taken together, and each sender hears what became of his own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event
from typing import cast

import pytest

from tidegate.link.agent_api import AgentApi
from tidegate.link.problems import Refused
from tidegate.link.report_desk import ReportDesk
from tidegate.model.reading import HostName
from tidegate.runtime.errors import Transient
from tidegate.wire import Answer, Arrival, Batch

NOW = datetime(2026, 11, 25, tzinfo=UTC)


class Counting:
    """Answers with the moment at which a batch was sent; waits until it is let go."""

    def __init__(self) -> None:
        self.groups: list[list[float]] = []
        self.fates: list[str] = []
        self.open, self.began, self.slow = Event(), Event(), Event()
        self.open.set()
        self.slow.set()

    def take(self, arrivals: Sequence[Arrival]) -> Sequence[Answer | Exception]:
        self.began.set()
        self.open.wait(30)
        if arrivals[0].batch.sent_at == 12:
            self.slow.wait(30)
        self.groups.append([one.batch.sent_at for one in arrivals])
        return [self._answer(one.batch.sent_at) for one in arrivals]

    def _answer(self, number: float) -> Answer | Exception:
        if number == 11:
            raise BaseException("panic")
        if number == 13:
            return ValueError("does not fit")
        if number == 14:
            return Transient("away")
        if number == 15:
            raise KeyError("a mistake of ours")
        return Answer(now=number)

    def refused(self, fate: str) -> None:
        self.fates.append(fate)


def body(number: float, host: str = "gpu-1") -> bytes:
    return Batch(host=host, sent_at=number).model_dump_json().encode()


async def say(desk: ReportDesk, *numbers: float) -> list[float | BaseException]:
    told = await asyncio.gather(
        *(desk.take(HostName("gpu-1"), body(number), NOW) for number in numbers), return_exceptions=True
    )
    return [one if isinstance(one, BaseException) else Answer.model_validate_json(one).now for one in told]


def desk_of(api: Counting, threads: int = 1) -> ReportDesk:
    return ReportDesk(cast(AgentApi, api), threads)


def test_those_that_come_while_one_is_taken_go_together() -> None:
    api = Counting()
    desk = desk_of(api)

    async def crowd() -> list[float | BaseException]:
        api.open.clear()
        first = asyncio.ensure_future(say(desk, 1.0))
        await asyncio.to_thread(api.began.wait, 30)
        others = asyncio.ensure_future(say(desk, *map(float, range(100, 180))))
        await asyncio.sleep(0)
        api.open.set()
        return [*await first, *await others]

    assert asyncio.run(crowd()) == [1.0, *map(float, range(100, 180))]
    assert [len(group) for group in api.groups] == [1, 64, 16]


def test_each_hears_its_own_failure() -> None:
    api = Counting()
    desk = desk_of(api)

    async def all_kinds() -> list[float | BaseException]:
        strange = asyncio.gather(
            desk.take(HostName("gpu-1"), b"{", NOW),
            desk.take(HostName("gpu-1"), body(1.0, "gpu-2"), NOW),
            return_exceptions=True,
        )
        return [*await strange, *await say(desk, 13.0, 14.0, 16.0)]

    broken, foreign, torn, away, good = asyncio.run(all_kinds())
    assert [one.status for one in (broken, foreign, torn) if isinstance(one, Refused)] == [400, 403, 422]
    assert isinstance(away, Transient)
    assert good == 16.0
    assert api.fates == ["malformed", "unauthorized", "malformed"]


def test_a_mistake_of_ours_leaves_nobody_waiting() -> None:
    desk = desk_of(Counting())
    (mistake,) = asyncio.run(say(desk, 15.0))
    assert isinstance(mistake, KeyError)
    assert asyncio.run(say(desk, 1.0)) == [1.0], "and the next one has its turn, from another loop too"


def test_not_even_a_panic_of_a_library_leaves_anybody_waiting() -> None:
    """pydantic's core, in Rust, panics as a BaseException."""
    desk = desk_of(Counting())
    (mistake,) = asyncio.run(say(desk, 11.0))
    assert "panic" in str(mistake)
    assert asyncio.run(say(desk, 1.0)) == [1.0], "and its thread goes on"


def test_whoever_goes_away_harms_nobody() -> None:
    api = Counting()
    desk = desk_of(api)

    async def impatient() -> list[float | BaseException]:
        api.open.clear()
        gone = asyncio.ensure_future(say(desk, 1.0))
        await asyncio.to_thread(api.began.wait, 30)
        gone.cancel()
        api.open.set()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await say(desk, 2.0)

    assert asyncio.run(impatient()) == [2.0]


def test_nobody_waits_for_a_slow_answer_to_somebody_else() -> None:
    api = Counting()
    desk = desk_of(api, threads=2)

    async def overtake() -> list[float | BaseException]:
        api.slow.clear()
        slow = asyncio.ensure_future(say(desk, 12.0))
        await asyncio.to_thread(api.began.wait, 30)
        told = await say(desk, 2.0)
        api.slow.set()
        return [*told, *await slow]

    assert asyncio.run(overtake()) == [2.0, 12.0]
    assert api.groups == [[2.0], [12.0]]
