"""Sick GPUs: one that hangs hides no other, its events outlive its reader, and a counter that jumps is no bill."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from fakes.nvml_host import FIRST, PROMPT, SECOND, Host, MakeHost

from tidegate.model.reading import Gap, GpuFault, GpuSurvey, Missing
from tidegate.observe.gpu_hung import MOST_STUCK, RETRY_SECONDS

A_WHILE = 10.0
"""Real seconds that a thread of the reader may need to see an event, on a busy machine."""


def ups(survey: GpuSurvey) -> list[bool]:
    return [gpu.up for gpu in survey.gpus]


def hang(host: Host, index: int = 1) -> GpuSurvey:
    """Let a call about a GPU hang, see it, and let the pause before the next reader pass."""
    host.faults.write_text(f"nvmlDeviceGetUtilizationRates {index} -1\n")
    survey = host.read()
    host.clock.seconds += 1.0
    return survey


def test_a_gpu_that_hangs_costs_its_neighbours_one_survey(make_host: MakeHost) -> None:
    host = make_host(timeout=PROMPT)
    host.read_started()
    survey = hang(host)
    assert (survey.fault, survey.gpus) == (GpuFault.HANGING, ())

    healthy, hung = host.read_started().gpus
    assert (healthy.uuid, healthy.up, healthy.utilization) == (FIRST, True, 0.87)
    assert (hung.uuid, hung.up, hung.index) == (SECOND, False, 1)
    assert "left alone" in hung.why


def test_a_gpu_that_hung_is_tried_again_later_each_time(make_host: MakeHost) -> None:
    host = make_host(timeout=PROMPT)
    host.read_started()
    for pause in RETRY_SECONDS[:2]:
        hang(host)
        assert ups(host.read_started()) == [True, False]
        host.clock.seconds += pause - 2.0
        assert ups(host.read()) == [True, False]
        host.clock.seconds += 2.0

    host.faults.write_text("")
    assert ups(host.read()) == [True, True]
    hang(host)
    host.faults.write_text("")
    host.clock.seconds += RETRY_SECONDS[0]
    assert ups(host.read_started()) == [True, True]


def test_a_gpu_that_crashes_its_reader_is_left_alone_too(make_host: MakeHost) -> None:
    """A segmentation fault in the driver's library ends the process at the same call each time."""
    host = make_host(timeout=PROMPT)
    host.read_started()
    child = host.reader._child
    assert child is not None
    child.at_gpu = 1  # as after the line that precedes the call
    os.kill(child.pid, signal.SIGSTOP)  # so that it cannot say more
    os.kill(child.pid, signal.SIGSEGV)
    os.kill(child.pid, signal.SIGCONT)

    survey = host.read()
    host.clock.seconds += 1.0
    if survey.fault is GpuFault.READER_DIED:  # otherwise it was reaped before it was asked, which blames nobody
        assert survey.why == "the GPU reader ended when it asked about GPU 1 (signal 11); it is restarted"
        assert ups(host.read_started()) == [True, False]


def test_processes_that_do_not_die_are_put_up_with_while_they_have_a_gpu_each(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call in the kernel outlives SIGKILL; the other GPUs are read by another process, but not by any number."""
    host = make_host("h200x8", timeout=PROMPT)
    stuck = []
    for index in range(MOST_STUCK):
        assert host.read_started().up
        child = host.reader._child
        assert child is not None
        stuck.append(child)
        monkeypatch.setattr(child._process, "kill", lambda: None)  # as good as a SIGKILL in state D
        hang(host, index)
    host.faults.write_text("")

    survey = host.read()
    assert survey.why.startswith(f"the GPU reader (pid {stuck[0].pid}) is stuck inside the driver")
    os.kill(stuck[0].pid, signal.SIGKILL)
    stuck[0].exit_code(5.0)
    host.let_backoff_pass()
    assert ups(host.read_started()) == [True, False, False, True, True, True, True, True]
    for child in stuck[1:]:
        os.kill(child.pid, signal.SIGKILL)
        child.exit_code(5.0)


def events(host: Host, tmp_path: Path, *lines: str, seen: int) -> GpuSurvey:
    """Let events happen and read until so many have arrived."""
    with (tmp_path / "events").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    until = time.monotonic() + A_WHILE
    while time.monotonic() < until:
        survey = host.read()
        if sum(one.count for gpu in survey.gpus for one in gpu.xids.values()) >= seen:
            return survey
        time.sleep(0.02)
    raise AssertionError("the events never arrived")


def test_error_events_are_counted_by_gpu_and_code_with_their_last_time(host: Host, tmp_path: Path) -> None:
    assert [dict(gpu.xids) for gpu in host.read().gpus] == [{}, {}]
    first, second = events(host, tmp_path, "0 31", "1 79", "0 31", seen=3).gpus

    assert {code: one.count for code, one in first.xids.items()} == {31: 2}
    assert {code: one.count for code, one in second.xids.items()} == {79: 1}
    age = (host.now - second.xids[79].last_at).total_seconds()
    assert 0 <= age < A_WHILE


def test_error_events_outlive_the_process_that_saw_them(host: Host, tmp_path: Path) -> None:
    host.read()
    events(host, tmp_path, "1 79", seen=1)
    os.kill(host.pid(), signal.SIGKILL)
    host.read()
    host.let_backoff_pass()
    (tmp_path / "events").write_text("")
    host.read()

    total = events(host, tmp_path, "1 79", "1 48", seen=3).gpus[1]
    assert {code: one.count for code, one in total.xids.items()} == {48: 1, 79: 2}


def test_a_lost_gpu_shows_the_event_that_took_it(host: Host, tmp_path: Path) -> None:
    host.read()
    host.faults.write_text("nvmlDeviceGetUtilizationRates 1 15\n")
    lost = events(host, tmp_path, "1 79", seen=1).gpus[1]

    assert (lost.up, lost.uuid, set(lost.xids)) == (False, SECOND, {79})


def test_a_gpu_without_events_is_read_all_the_same(host: Host) -> None:
    host.faults.write_text("nvmlDeviceRegisterEvents -1 3\n")

    assert ups(host.read()) == [True, True]


def test_an_energy_counter_that_jumps_for_one_reading_is_missing_once(host: Host) -> None:
    before = host.read().gpus[0].energy_joules
    host.faults.write_text("energy-joules 0 1000000\n")
    assert host.read().gpus[0].energy_joules == Missing(Gap.MALFORMED)

    host.faults.write_text("energy-joules 0 1\n")
    assert host.read().gpus[0].energy_joules == before + 1000.0  # type: ignore[operator]


def test_an_energy_counter_that_jumps_for_good_goes_on_from_where_it_was(host: Host) -> None:
    before = host.read().gpus[0].energy_joules
    for thousand in (1000000, 1000001, 1000002):
        host.faults.write_text(f"energy-joules 0 {thousand}\n")
        after = host.read().gpus[0].energy_joules

    assert after == pytest.approx(before + 2000.0)
