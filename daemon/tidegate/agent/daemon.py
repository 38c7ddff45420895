"""The agent: collections, and beside them (where there is a controller) delivery, the long poll and the units.

Each part runs on its own thread and hands over immutable values, so that none can hold up the collections.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from tidegate.agent.collect import Collector, Look, Pace
from tidegate.agent.packing import Around, host_state, in_view, pack, snapshot, uncarried
from tidegate.agent.ports import ControllerLink, EngineTarget
from tidegate.agent.report import DesiredPoll, Reporter
from tidegate.agent.spool import Spool
from tidegate.agent.surroundings import Surroundings
from tidegate.agent.units import Manners, Replicas
from tidegate.model.snapshot import AgentSnapshot, LinkState, SpoolState
from tidegate.runtime.clock import Clock
from tidegate.runtime.errors import Transient
from tidegate.runtime.loop import Loop
from tidegate.wire import HostState

_log = structlog.get_logger()

_COLLECT = "collect"
_MISSED_COLLECTIONS = 6
_HUNG_SECONDS = 30.0
"""Real seconds beyond the missed collections until one is taken for hung: a busy machine is no hang."""
_RECONCILE = timedelta(seconds=5)
"""How often the units are looked at when nothing new is wanted."""
_PATIENCE = 1.5
"""Intervals until a collection is taken to be late: it comes a little early or late each time."""
_POLL_WAIT = timedelta(seconds=25)
_UNITS_PAUSE_SECONDS = 0.2
"""Real seconds between two looks at the units at least: a played clock must not make a process spin."""


@dataclass(frozen=True, slots=True)
class Course:
    """What a reload may change."""

    pace: Pace
    targets: tuple[EngineTarget, ...]
    links: tuple[ControllerLink, ...]
    manners: Manners
    loaded_at: datetime


@dataclass(frozen=True, slots=True)
class Control:
    """What an agent has besides its exporter when there is a controller."""

    spool: Spool
    reporter: Reporter
    poll: DesiredPoll
    replicas: Replicas


class Agent:
    """One host's agent. `snapshot` is for any thread; each of the other verbs is for one thread."""

    def __init__(
        self,
        collector: Collector,
        control: Control | None,
        course: Course,
        clock: Clock,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._collector, self._control, self._course, self._clock = collector, control, course, clock
        self._surroundings = surroundings or Surroundings()
        self._boot_id = uuid.uuid4().hex
        """Of this life of the agent, not of the host: no sequence number needs to be remembered to be used once."""
        self._sequence = 0
        self._look: Look | None = None
        self._snapshot: AgentSnapshot | None = None
        self._reload_ok = True
        self._web_ok = True
        self._left_out = 0
        self.on_collected: Callable[[], None] = lambda: None
        """Called after each collection, once `snapshot` tells it."""
        self._fresh = threading.Event()
        self._stopping = threading.Event()

    def snapshot(self) -> AgentSnapshot | None:
        """What the last collection saw; None before the first."""
        return self._snapshot

    def collecting(self, loop: Loop) -> bool:
        """True while the collections on this loop come to an end, well or not: the watchdog is fed by it."""
        missed = self._clock.real_seconds(_MISSED_COLLECTIONS * self._course.pace.interval)
        return loop.ended_within(_COLLECT, _HUNG_SECONDS + missed)

    def collect(self) -> None:
        """One collection: shown, spooled, and delivery woken."""
        control, course = self._control, self._course
        managed = control.replicas.targets() if control else ()
        starting = control.replicas.starting() if control else frozenset()
        targets = self._surroundings.targets(course.targets, managed)
        look = self._surroundings.counted(self._collector.collect(targets, starting))
        self._sequence += 1
        if control is not None:
            self._spool(control.spool, look)
        around = Around(
            self._sequence,
            control.replicas.states() if control else {},
            control.spool.state() if control else SpoolState(),
            control.reporter.state() if control else LinkState(),
            course.loaded_at,
            self._reload_ok and self._web_ok,
            self._surroundings.sources(),
        )
        self._snapshot = snapshot(look, course.pace.window, around)
        self._look = look
        self._fresh.set()
        self.on_collected()

    def look_around(self) -> None:
        """Look at the processes of this host; may be held up by the kernel, and nothing else with it."""
        units = self._control.replicas.units() if self._control is not None else ()
        self._surroundings.look(self._look, units, self._clock.now())

    def deliver(self) -> None:
        """Wait for the next collection and deliver; without one only what waits. Raises as `Reporter.round` does."""
        if self._control is None or self._stopping.is_set():
            return
        fresh = self._clock.wait(self._fresh, _PATIENCE * self._course.pace.interval)
        self._fresh.clear()
        if not self._stopping.is_set():
            self._control.reporter.round(self._state() if fresh else None)

    def poll(self) -> None:
        """Ask once for a newer desired state. Raises as `DesiredPoll.turn` does."""
        if self._control is not None and not self._stopping.is_set():
            self._control.poll.turn(self._control.replicas.position(), _POLL_WAIT)

    def reconcile(self) -> None:
        """Wait until something new is wanted (5 s at most) and make the units so. Raises as `Replicas.reconcile`."""
        if self._control is None or self._stopping.is_set():
            return
        replicas = self._control.replicas
        replicas.wake.wait(max(_UNITS_PAUSE_SECONDS, self._clock.real_seconds(_RECONCILE)))
        replicas.wake.clear()
        if not self._stopping.is_set():
            replicas.reconcile(in_view(self._look))

    def steer(self, course: Course) -> None:
        """Take on a reloaded configuration."""
        self._course, self._reload_ok = course, True
        self._collector.use(course.pace)
        if self._control is not None:
            self._control.reporter.use(course.links)
            self._control.poll.use(course.links)
            self._control.replicas.use(course.manners)

    def reload_failed(self) -> None:
        """Note that the configuration on disk is not the one in force."""
        self._reload_ok = False

    def note_web(self, *, ok: bool) -> None:
        """Note whether the web configuration on disk is the one in force."""
        self._web_ok = ok

    def schedule_collections(self, loop: Loop) -> None:
        """Put the collections on the loop, or change their interval there."""
        loop.every(_COLLECT, self._course.pace.interval, self.collect)

    def schedule(self, loop: Loop, control_loop: Loop) -> None:
        """Put the work on loops: what must end in order on `loop`, what may be left hanging on `control_loop`."""
        self.schedule_collections(loop)
        if self._control is not None:
            with suppress(Transient):  # the units' loop tries again and says what is wrong
                self._control.replicas.look()
            loop.steadily("deliver", self.deliver)
            loop.steadily("units", self.reconcile)
            control_loop.steadily("poll", self.poll)

    def wind_down(self) -> None:
        """End the waiting of every part; units keep running."""
        self._stopping.set()
        self._fresh.set()
        if self._control is not None:
            self._control.replicas.wake.set()

    def last_word(self) -> None:
        """Deliver once more, without waiting. Raises as `Reporter.round` does."""
        if self._control is not None and self._look is not None:
            self._control.reporter.round(self._state())

    def close(self) -> None:
        """Let go of readers and files."""
        self._collector.close()
        if self._control is not None:
            self._control.spool.close()

    def _spool(self, spool: Spool, look: Look) -> None:
        report, layout = pack(look.reading, self._boot_id, self._sequence)
        spool.append(report, layout, self._clock.now())
        left_out = uncarried(look.reading, layout)
        if left_out != self._left_out:
            self._left_out = left_out
            _log.warning("series not reported", count=left_out, why="a name the wire cannot carry, or too many series")

    def _state(self) -> HostState | None:
        look, control = self._look, self._control
        if look is None or control is None:
            return None
        # The position first: replicas that are told with it are then at least as new.
        position = control.replicas.position()
        return host_state(look, control.replicas.report(look.histories), position, control.spool.state())
