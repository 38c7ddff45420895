"""Run named jobs at intervals; the one place where an unforeseen error is caught: counted, logged once, run again.

APScheduler 3 with its memory job store. A job never overlaps itself; a run that comes late is made once, not for
every interval missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED

from tidegate.runtime.clock import Clock, SystemClock
from tidegate.runtime.errors import TidegateError
from tidegate.runtime.niceness import stand_back

_log = structlog.get_logger()
_WORKERS = 8
_PAUSE = timedelta(seconds=1)
"""After a failure of steady work, clock time: what fails at once must not spin."""
_TOLD = 20
"""Different words that one failing job may put into the log until it works again."""


@dataclass(frozen=True, slots=True)
class JobHealth:
    """How a job has done so far."""

    last_success: datetime | None = None
    consecutive_failures: int = 0
    runs: int = 0
    failures: int = 0
    seconds: float = 0.0
    """How long the last run took, real seconds."""
    error: str = ""
    """What the last failure said; empty after a success."""


class Loop:
    """The jobs of one daemon. Intervals are given in the clock's time and scheduled in real time."""

    def __init__(self, clock: Clock, *, back: int = 0) -> None:
        """`back`: by how much (nice) its jobs stand back behind the other threads of the process on a busy core."""
        self._clock = clock
        self._real = SystemClock()
        self._lock = threading.Lock()
        self._health: dict[str, JobHealth] = {}
        self._ended: dict[str, float] = {}
        """When each job's last run came to an end, well or not; when it was added, before its first."""
        self._told: dict[str, set[str]] = {}
        """What the log has of each job's failures since it last worked: two errors in turn are still the same two."""
        self._idle = threading.Condition(self._lock)
        self._running = 0
        self._stopping = threading.Event()
        self._steady: list[threading.Thread] = []
        workers = ThreadPoolExecutor(_WORKERS, {"initializer": stand_back, "initargs": (back,)})
        self._scheduler = BackgroundScheduler(executors={"default": workers}, timezone=UTC)

    def every(
        self,
        name: str,
        interval: timedelta,
        job: Callable[[], None],
        first_after: timedelta = timedelta(),
        only_if: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run `job` every `interval`, first after `first_after`; adding the same name again replaces it.

        A turn for which `only_if` says no is left out, and counts neither as a run nor as a silence.
        """
        self._know(name)
        seconds = max(0.01, self._clock.real_seconds(interval))
        first = self._real.now() + timedelta(seconds=self._clock.real_seconds(first_after))
        self._scheduler.add_job(
            lambda: self._run(name, job) if only_if() else self._left_out(name),
            "interval",
            seconds=seconds,
            next_run_time=first,
            id=name,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            replace_existing=True,
        )

    def steadily(self, name: str, job: Callable[[], None]) -> None:
        """Run `job` again as soon as it returns, on its own thread: for work that waits by itself (a long poll)."""
        self._know(name)
        self._steady.append(threading.Thread(target=self._repeat, args=(name, job), name=name, daemon=True))

    def start(self) -> None:
        """Begin to run the jobs, on threads of their own."""
        self._scheduler.start()
        for thread in self._steady:
            thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Start no further run and wait for those under way; False when some were still running."""
        self._stopping.set()
        if self._scheduler.state != STATE_STOPPED:
            self._scheduler.shutdown(wait=False)
        with self._idle:
            return self._idle.wait_for(lambda: self._running == 0, timeout_seconds)

    def health(self) -> Mapping[str, JobHealth]:
        """A copy of every job's health."""
        with self._lock:
            return dict(self._health)

    def ended_within(self, name: str, real_seconds: float) -> bool:
        """True when a run of the job came to an end so recently: a failure is an end, a hang is none."""
        with self._lock:
            return self._real.monotonic() - self._ended[name] <= real_seconds

    def _know(self, name: str) -> None:
        with self._lock:
            self._health.setdefault(name, JobHealth())
            self._ended.setdefault(name, self._real.monotonic())

    def _left_out(self, name: str) -> None:
        with self._lock:
            self._ended[name] = self._real.monotonic()

    def _repeat(self, name: str, job: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            self._run(name, job)
            if self.health()[name].consecutive_failures:
                self._clock.wait(self._stopping, _PAUSE)

    def _run(self, name: str, job: Callable[[], None]) -> None:
        with self._lock:
            if self._stopping.is_set():  # it waited for a thread when the stop came
                return
            self._running += 1
        began = self._real.monotonic()
        error: Exception | None = None
        try:
            job()
        except Exception as caught:  # noqa: BLE001 - the one broad except of the program (design, section 3)
            error = caught
        self._settle(name, self._real.monotonic() - began, error)

    def _settle(self, name: str, seconds: float, error: Exception | None) -> None:
        said = "" if error is None else str(error) or type(error).__name__
        with self._idle:
            before = self._health[name]
            self._running -= 1
            self._ended[name] = self._real.monotonic()
            self._health[name] = (
                replace(
                    before,
                    last_success=self._clock.now(),
                    consecutive_failures=0,
                    runs=before.runs + 1,
                    seconds=seconds,
                    error="",
                )
                if error is None
                else replace(
                    before,
                    consecutive_failures=before.consecutive_failures + 1,
                    runs=before.runs + 1,
                    failures=before.failures + 1,
                    seconds=seconds,
                    error=said,
                )
            )
            fresh = self._is_news(name, said)
            self._idle.notify_all()
        if error is not None and fresh:
            # A foreseen failure needs no traceback; the same failure again is in the counter, not in the log.
            _log.error("job failed", job=name, error=said, exc_info=None if isinstance(error, TidegateError) else error)
        elif error is None and before.consecutive_failures:
            _log.info("job works again", job=name, after_failures=before.consecutive_failures)

    def _is_news(self, name: str, said: str) -> bool:
        told = self._told.setdefault(name, set())
        if not said:
            told.clear()
        elif said not in told and len(told) < _TOLD:
            told.add(said)
            return True
        return False
