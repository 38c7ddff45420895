"""The runtime: clock, loop, log, tokens, signals and systemd's socket."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from tidegate.runtime import lifecycle, log, tokens
from tidegate.runtime.clock import ScaledClock, SystemClock, clock_from_environment
from tidegate.runtime.errors import ConfigError, Transient
from tidegate.runtime.loop import Loop

SECOND = timedelta(seconds=1)


def test_a_played_clock_agrees_between_processes_through_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ScaledClock(1_000.0, datetime(2026, 11, 28, tzinfo=UTC), 576.0)
    monkeypatch.setenv("TIDEGATE_CLOCK", clock.text())

    assert clock_from_environment() == clock
    assert clock.real_seconds(timedelta(minutes=10)) == pytest.approx(600 / 576)


def test_without_the_variable_the_machine_tells_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_CLOCK", raising=False)

    assert isinstance(clock_from_environment(), SystemClock)


@pytest.mark.parametrize("text", ["soon", "1,2", "0,0,0", "0,0,-3", "0,1e30,1", "0,nan,1", "nan,0,1", "0,0,inf"])
def test_a_bad_clock_is_a_configuration_error_that_shows_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CLOCK", text)

    with pytest.raises(ConfigError, match="TIDEGATE_CLOCK"):
        clock_from_environment()


def test_a_failing_job_is_counted_and_runs_again_and_hurts_no_other() -> None:
    """The loop's promise: an error costs one run of one job."""
    loop = Loop(SystemClock())
    recovered, others = threading.Event(), threading.Event()
    calls: list[int] = []

    def fails_twice() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise Transient("the database is away")
        recovered.set()

    loop.every("flaky", SECOND / 50, fails_twice)
    loop.every("steady", SECOND / 50, others.set)
    loop.start()
    assert recovered.wait(10)
    assert others.wait(10)
    assert loop.stop(10)

    health = loop.health()["flaky"]
    assert (health.failures, health.consecutive_failures) == (2, 0)
    assert health.last_success is not None
    assert loop.health()["steady"].failures == 0


def test_a_job_never_overlaps_itself() -> None:
    loop = Loop(SystemClock())
    gate, seen = threading.Event(), threading.Event()
    inside: list[int] = []
    most: list[int] = [0]

    def slow() -> None:
        inside.append(1)
        most[0] = max(most[0], len(inside))
        seen.set()
        gate.wait(0.2)
        inside.pop()

    loop.every("slow", SECOND / 100, slow)
    loop.start()
    assert seen.wait(10)
    gate.wait(0.3)
    gate.set()
    assert loop.stop(10)

    assert most[0] == 1


def test_stop_waits_for_the_run_under_way() -> None:
    loop = Loop(SystemClock())
    began, done = threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        threading.Event().wait(0.2)
        done.set()

    loop.every("once", timedelta(hours=1), job)
    loop.start()
    assert began.wait(10)
    assert loop.stop(10)

    assert done.is_set()


def test_a_failure_is_an_end_of_a_run_and_a_hang_is_none() -> None:
    """The watchdog ends a process that hangs; ending it would bring no lost database back."""
    loop, failed, hung = Loop(SystemClock()), threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        raise Transient("the database is away")

    def hang() -> None:
        hung.set()
        release.wait(10)

    release = threading.Event()
    loop.every("failing", timedelta(milliseconds=10), fail)
    loop.every("hanging", timedelta(milliseconds=10), hang)
    loop.start()
    try:
        assert failed.wait(5)
        assert hung.wait(5)
        while loop.ended_within("hanging", 0.1):
            threading.Event().wait(0.01)
        assert loop.ended_within("failing", 5)
    finally:
        release.set()
        loop.stop()


def test_tokens_are_new_each_time_and_stored_as_a_hash() -> None:
    first, second = tokens.new_token("tgh"), tokens.new_token("tgh")

    assert first != second
    assert first.startswith("tgh_")
    assert len(tokens.token_hash(first)) == 64
    assert first not in tokens.token_hash(first)


def test_systemd_hears_ready_status_and_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "notify"))
        journal.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        life = lifecycle.Lifecycle()
        life.ready("serving")
        life.stop()
        life.wait()
        heard = [journal.recv(4096).decode() for _ in range(2)]

    assert heard == ["READY=1\nSTATUS=serving", "STOPPING=1\nSTATUS=stopping"]


def test_the_watchdog_is_fed_only_while_there_is_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "notify"))
        journal.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "60000")
        life = lifecycle.Lifecycle()
        asked: list[int] = []

        def progress() -> bool:
            asked.append(1)
            return len(asked) <= 2

        life.watchdog(progress)
        heard = [journal.recv(4096).decode() for _ in range(2)]
        while len(asked) < 6:
            threading.Event().wait(0.01)
        journal.settimeout(0.05)
        with pytest.raises(TimeoutError):
            journal.recv(4096)
        life.stop()

    assert heard == ["WATCHDOG=1", "WATCHDOG=1"]


def test_sighup_reloads_on_the_main_thread_and_sigterm_ends_the_wait() -> None:
    life = lifecycle.Lifecycle()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    reloads: list[str] = []

    def reload() -> None:
        reloads.append(threading.current_thread().name)
        os.kill(os.getpid(), signal.SIGTERM)

    life.on_reload = reload
    try:
        life.install()
        os.kill(os.getpid(), signal.SIGHUP)
        life.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    assert reloads == [threading.main_thread().name]
    assert life.stopping.is_set()


@pytest.mark.parametrize(
    ("journal", "said"),
    [("1:2", '<3>event="reload failed" file=t.toml\n<3>    t.toml:1: a\n<3>    t.toml:2: b\n'), ("", None)],
)
def test_every_problem_of_a_file_stands_on_a_line_of_its_own(
    journal: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty problems escaped into one line are read by nobody."""
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if journal:
        monkeypatch.setenv("JOURNAL_STREAM", journal)
    out = io.StringIO()
    log.configure("info", out)
    try:
        structlog.get_logger().error("reload failed", file="t.toml", error="t.toml:1: a\nt.toml:2: b")
    finally:
        structlog.reset_defaults()

    assert out.getvalue() == said if said else out.getvalue().endswith("\n    t.toml:1: a\n    t.toml:2: b\n")


@pytest.mark.parametrize("back", [0, 5])
def test_jobs_stand_back_and_nobody_else_does(back: int) -> None:
    loop, seen, done, mine = (
        Loop(SystemClock(), back=back),
        list[int](),
        threading.Event(),
        os.getpriority(os.PRIO_PROCESS, 0),
    )

    def job() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, 0))
        done.set()

    loop.every("job", timedelta(seconds=60), job)
    loop.start()
    assert done.wait(10)
    assert loop.stop(10)
    assert seen == [min(19, mine + back)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == mine


def test_under_the_journal_a_traceback_is_readable_and_its_lines_carry_the_priority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    out = io.StringIO()
    log.configure("info", out)
    try:
        int("no")
    except ValueError as error:
        structlog.get_logger().error("job failed", exc_info=error)
    finally:
        structlog.reset_defaults()

    lines = out.getvalue().splitlines()
    assert lines[:2] == ['<3>event="job failed"', "<3>    Traceback (most recent call last):"]
    assert lines[-1].startswith("<3>    ValueError: ")
    assert all(line.startswith("<3>") for line in lines)


def test_under_the_journal_a_line_carries_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    out = io.StringIO()
    log.configure("info", out)
    try:
        structlog.get_logger().error("tick failed", pool="burst")
        structlog.get_logger().debug("not said")
    finally:
        structlog.reset_defaults()

    assert out.getvalue() == '<3>event="tick failed" pool=burst\n'
