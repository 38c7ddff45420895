"""The front: a process of its own that agents talk to, as the controller's own process sees it.

It takes reports into the store, hands out desired states, and hands everything else on to us. So nobody who reports
waits for Python's lock while a tick thinks, and on a busy core it goes first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event, Thread

import structlog

from tidegate.controller.heard import Listener, Told
from tidegate.controller.hearing import Missed
from tidegate.controller.outbox import UNSEEN
from tidegate.model.reading import HostName
from tidegate.model.scrape import Source
from tidegate.runtime.aside import Aside
from tidegate.runtime.clock import Clock
from tidegate.runtime.collector import settle_young
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.niceness import stand_back
from tidegate.runtime.serve import Bind

_log = structlog.get_logger()

MODULE = "tidegate.controller.wiring_front"
_WAIT_SECONDS = 1.0
"""How long the front waits for news before it says that there is none."""
_APART_SECONDS = 0.05
"""Between two fetches: what comes meanwhile is fetched together."""
_AGAIN_SECONDS = 1.0
_HUNG_SECONDS = 60.0
"""A front that has said nothing for so long is ended."""
_STOP_SECONDS = 10.0
_STANDS_BACK = 5
"""How much nicer it is to look at what was reported than to take it: more than nothing, less than ticks and jobs."""


@dataclass(frozen=True, slots=True)
class FrontSetup:
    """What the front is given."""

    dsn: str
    """With its password."""
    listening: int
    """The open file of the socket that agents come to."""
    inner: bytes
    """Where we answer everything else."""
    clock: Clock
    source: Source
    recent: timedelta
    """We are told of reports that are younger."""
    epoch: int
    log_level: str


Setup = Callable[[int, bytes], FrontSetup]
"""What a front is given, for a listening socket's file and our inner address."""


class Front:
    """`start` and `stop` once; the rest from any thread, and without effect while it does not run."""

    def __init__(self, bind: Bind, setup: Setup, epoch: Callable[[], int], clock: Clock) -> None:
        """`epoch`: the term that runs now."""
        self._bind, self._setup, self._epoch, self._clock = bind, setup, epoch, clock
        self._listening: socket.socket | None = None
        self._aside: Aside | None = None
        self._stopping = Event()
        self._looker = ThreadPoolExecutor(1, "heard", stand_back, (_STANDS_BACK,))
        self._thread: Thread | None = None
        self._listener: Listener | None = None
        self._missed: Missed | None = None
        """Is told since when something that is stored may not have been heard."""
        self._fetched_at = clock.now()
        """When everything that there was to tell was fetched last."""
        self._fetched_from: int | None = None
        """The process that told it; None when it is known to have ended."""

    @property
    def port(self) -> int:
        """The port that agents come to, from the start on."""
        return int(self._listening.getsockname()[1]) if self._listening is not None else 0

    def start(self, inner: bytes, listener: Listener, missed: Missed) -> None:
        """Bind, and return once it answers; raises Permanent for a taken port, or when it does not come up."""
        self._listening, self._listener, self._missed = self._bind("controller"), listener, missed
        number = self._listening.fileno()
        aside = self._aside = Aside(MODULE, self._setup(number, inner), files=[number])
        try:
            first: Told = aside.begin("fetch", self._epoch(), 0.0).result(_HUNG_SECONDS)
        except (Transient, TimeoutError) as error:
            said = str(error) or f"it has said nothing for {_HUNG_SECONDS:g} s"
            raise Permanent(f"the front does not come up ({said}): what it said itself is above") from error
        self._fetched_from = aside.pid
        # Of our niceness: a front that has to be started anew is started by this thread.
        self._thread = Thread(target=self._listen, args=(aside, listener, first), name="front", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let it finish the answers under way, hear what it still has to tell, and end it; some seconds at most."""
        self._stopping.set()
        if self._aside is not None:
            last, told = self._aside.tell("stop"), Told()
            try:
                told = last.result(_STOP_SECONDS) if last is not None else told
            except (Transient, TimeoutError):
                self._aside.renew()  # it hangs: what it knows is stored, and its hosts say the rest again
            if self._thread is not None and self._listener is not None:
                self._thread.join(_AGAIN_SECONDS)
                self._look(self._listener, told)
            self._aside.close()
        if self._listening is not None:
            self._listening.close()
        self._looker.shutdown()

    def changed(self, hosts: Collection[HostName]) -> None:
        """What these hosts should run was just changed by us."""
        if self._aside is not None:
            self._aside.tell("changed", sorted(hosts))

    def distrust(self, host: HostName) -> None:
        """Forget the host's token; returns when that is so, or when the front does not answer."""
        done = self._aside.tell("distrust", host) if self._aside is not None else None
        if done is not None:
            with suppress(Transient, TimeoutError):  # one that has ended knows no token, one that hangs takes nothing
                done.result(_STOP_SECONDS)

    def _listen(self, aside: Aside, listener: Listener, told: Told) -> None:
        while not self._stopping.is_set():
            self._look(listener, told)
            self._stopping.wait(_APART_SECONDS)
            told = self._fetched(aside)
        self._look(listener, told)  # of a fetch that was under way

    def _fetched(self, aside: Aside) -> Told:
        """What there is to tell; nothing, after a while, where the front does not answer."""
        asked = self._clock.now()
        try:
            told = _answer(aside.begin("fetch", self._epoch(), _WAIT_SECONDS))
        except TimeoutError:
            _log.error("the front does not answer: it is ended and started anew", seconds=_HUNG_SECONDS)
            aside.renew()
        except Exception as error:  # noqa: BLE001 - whatever it is: it must be fetched again, as long as we live
            if not self._stopping.is_set():
                _log.error("the front has ended: it is started anew", error=str(error))
            aside.renew()
            self._stopping.wait(_AGAIN_SECONDS)
        else:
            self._note_fetched(told, asked, aside.pid)
            return told
        self._fetched_from = None
        return Told()

    def _note_fetched(self, told: Told, asked: datetime, pid: int | None) -> None:
        """Whether all of it came that was said since the last time, from the same process."""
        if self._fetched_from not in {None, pid}:  # it ended between two fetches
            _log.error("the front has ended: it is started anew", error=f"process {self._fetched_from} is gone")
        if self._missed is not None and (self._fetched_from != pid or UNSEEN in told.fates):
            self._missed(self._fetched_at)
        self._fetched_at, self._fetched_from = asked, pid

    def _look(self, listener: Listener, told: Told) -> None:
        """One after the other: what is not fetched yet waits in the front, where there is a bound."""
        try:
            self._looker.submit(listener.hear, told).result()
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the listening
            _log.error("what was reported could not be looked at", exc_info=error)
            if self._missed is not None:
                self._missed(self._fetched_at)
        settle_young()


def _answer(fetch: Future[Told]) -> Told:
    """Raises TimeoutError when it hangs; where we did not run ourselves for so long it has a moment more."""
    try:
        return fetch.result(_HUNG_SECONDS)
    except TimeoutError:
        return fetch.result(_AGAIN_SECONDS)
