"""The same failure again and again is in a counter, not in the log: a night's outage must not bury its beginning."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.agent_parts import NOON, FakeLink, FakeUnits, ManualClock, desired, layout, replica, report
from structlog.testing import capture_logs

from tidegate.agent.desired_state import KeptFile
from tidegate.agent.report import Listeners, Reporter
from tidegate.agent.spool import Spool, SpoolLimits
from tidegate.agent.units import Manners, Replicas
from tidegate.model.fleet import Want
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Transient
from tidegate.runtime.loop import Loop
from tidegate.wire import HostState


def failures_told(errors: Callable[[int], Exception | None], runs: int) -> list[str]:
    """What the log says of a job that fails in its n-th run with `errors(n)`."""
    loop, done, count = Loop(SystemClock()), threading.Event(), iter(range(1, 10_000))

    def job() -> None:
        number = next(count)
        if number > runs:
            done.set()
            return
        error = errors(number)
        if error is not None:
            raise error

    with capture_logs() as said:
        loop.every("job", timedelta(milliseconds=10), job)
        loop.start()
        assert done.wait(10)
        assert loop.stop(10)
    return [str(line["error"]) for line in said if line["event"] == "job failed"]


def test_two_failures_in_turn_are_told_once_each() -> None:
    """Two controllers that are both away refuse by their own names, one after the other."""
    told = failures_told(lambda n: Transient(f"controller {n % 2} is away"), 12)

    assert sorted(told) == ["controller 0 is away", "controller 1 is away"]


def test_a_failure_without_words_is_told_once_by_its_kind() -> None:
    assert failures_told(lambda _: KeyError(), 6) == ["KeyError"]


def test_a_failure_that_comes_back_after_a_success_is_told_again() -> None:
    assert failures_told(lambda n: None if n == 3 else Transient("away"), 5) == ["away", "away"]


def test_a_failure_that_never_repeats_its_words_cannot_flood_the_log() -> None:
    assert len(failures_told(lambda n: Transient(f"port {n} is not open"), 60)) == 20


def test_a_silent_controller_is_told_once_while_the_other_takes_the_reports(tmp_path: Path) -> None:
    """And again when it has answered in between."""
    first, second, clock = FakeLink(), FakeLink(), ManualClock()
    spool = Spool(tmp_path / "spool.db", SpoolLimits())
    reporter = Reporter("gpu-1", [first, second], spool, Listeners(lambda _: None, lambda _: None), clock)
    first.failure = second.failure = Transient("down")

    with capture_logs() as said:
        for number in range(1, 6):
            spool.append(report(number), layout(), NOON)
            with pytest.raises(Transient):
                reporter.round(HostState())

    assert [line["event"] for line in said] == ["controller does not answer, trying the next"]


@pytest.mark.parametrize("want", [Want.RUN, Want.STOP])
def test_a_unit_that_will_not_start_or_stop_is_told_once(tmp_path: Path, want: Want) -> None:
    """It is tried every few seconds for as long as it is wanted."""
    units, clock = FakeUnits(), ManualClock()
    replicas = Replicas(units, KeptFile(tmp_path / "desired.json"), Manners(lambda _: None, {}), clock)
    if want is Want.STOP:
        replicas.offer(desired(replica("b-1"), revision=1))
        replicas.reconcile({})
        units.stop = refuse  # type: ignore[assignment]
        replicas.offer(desired(replica("b-1", want=Want.STOP), revision=2))
    else:
        units.refusal = Transient("systemd does not answer")
        replicas.offer(desired(replica("b-1"), revision=1))

    with capture_logs() as said:
        for _ in range(6):
            clock.pass_by(timedelta(seconds=5))
            replicas.reconcile({})

    assert [line["event"] for line in said] == ["unit not stopped" if want is Want.STOP else "unit not started yet"]


def refuse(*_: object) -> None:
    raise Transient("systemd does not answer")
