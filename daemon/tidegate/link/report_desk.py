"""Where reports wait for their turn: what many hosts bring at the same time is read, stored and answered together.

A few threads work for all of them, and take whatever came while they were busy: nobody waits for a timer, nor for what
the database does for somebody else. A thread a report would cost several times its work in switches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from pydantic import BaseModel, ValidationError

from tidegate.link.agent_api import AgentApi
from tidegate.link.problems import Refused, malformed
from tidegate.model.reading import HostName
from tidegate.runtime.collector import settle_young
from tidegate.wire import ACCEPTED_VERSIONS, Answer, Arrival, Batch

_MOST = 64
"""Reports that are taken together: as many as the store puts into one transaction."""
_THREADS = 4


class _Envelope(BaseModel):
    """What is read of a message before its version is known to be ours."""

    version: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """A body that waits for its answer."""

    host: HostName
    body: bytes
    arrived: datetime
    answer: asyncio.Future[bytes]

    def tell(self, answer: bytes | Exception) -> None:
        """From any thread; whoever went away meanwhile is not told."""
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self.answer.get_loop().call_soon_threadsafe(self._settle, answer)

    def _settle(self, answer: bytes | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class ReportDesk:
    """Takes the bodies of reports, from any event loop."""

    def __init__(self, api: AgentApi, threads: int = _THREADS) -> None:
        self._api = api
        self._lock = Lock()
        self._waiting: deque[_Turn] = deque()
        self._idle = threads
        self._threads = ThreadPoolExecutor(threads, "reports")

    async def take(self, host: HostName, body: bytes, arrived: datetime) -> bytes:
        """The answer to a host's batch, as JSON; raises Refused, or Transient when the database is away."""
        turn = _Turn(host, body, arrived, asyncio.get_running_loop().create_future())
        with self._lock:
            self._waiting.append(turn)
            begin = self._idle > 0
            self._idle -= begin
        if begin:
            self._threads.submit(self._work)
        return await turn.answer

    def _work(self) -> None:
        while turns := self._next():
            try:
                self._take(turns)
            except BaseException as error:  # noqa: BLE001 - whoever waits is told, and the server says it to the log
                for turn in turns:
                    turn.tell(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            settle_young()

    def _next(self) -> list[_Turn]:
        """Who has his turn now; with nobody this thread is idle."""
        with self._lock:
            turns = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
            self._idle += not turns
        return turns

    def _take(self, turns: Sequence[_Turn]) -> None:
        arrivals, read = [], []
        for turn in turns:
            try:
                arrivals.append(Arrival(turn.host, self._read(turn), turn.arrived))
                read.append(turn)
            except Refused as refused:
                turn.tell(refused)
        answers = self._api.take(arrivals) if arrivals else ()
        for turn, answer in zip(read, answers, strict=True):
            turn.tell(self._said(answer))

    def _read(self, turn: _Turn) -> Batch:
        try:
            batch = parse_batch(turn.body)
        except Refused:
            self._api.refused("malformed")
            raise
        if batch.host != turn.host:
            self._api.refused("unauthorized")
            raise Refused(
                403,
                f"the token is {turn.host}'s and speaks for no other host, not for {batch.host}",
                "set `name` in [agent] to the enrolled name, or enroll this host",
            )
        return batch

    def _said(self, answer: Answer | Exception) -> bytes | Exception:
        if isinstance(answer, Answer):
            return answer.model_dump_json().encode()
        if not isinstance(answer, ValueError):
            return answer
        self._api.refused("malformed")
        return Refused(422, str(answer), "the agent and its layouts disagree; restart the agent")


def parse_batch(body: bytes) -> Batch:
    """The batch; raises Refused (400 or 422) with every place that is wrong."""
    if b"\\u0000" in body or b"\x00" in body:
        raise Refused(422, "the message holds a NUL character, which no database text may", "leave it out")
    try:
        batch = Batch.model_validate_json(body)
    except ValidationError as error:
        _check_version(body)
        raise malformed(error) from error
    _check_version(body, batch.version)
    return batch


def _check_version(body: bytes, version: int | None = None) -> None:
    if version is None:
        try:
            version = _Envelope.model_validate_json(body).version
        except ValidationError:
            return
    if version not in ACCEPTED_VERSIONS:
        spoken = ", ".join(str(accepted) for accepted in ACCEPTED_VERSIONS)
        raise Refused(
            400,
            f"wire version {version} is not spoken here, only {spoken}",
            "upgrade the controller first, then the agents",
        )
