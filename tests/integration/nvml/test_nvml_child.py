"""The life of the child process: opened once, hanging, dying, replaced, never left behind."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.nvml_host import FIRST, PROMPT, SECOND, Host, MakeHost

from tidegate.model.reading import GpuFault


def exists(pid: int) -> bool:
    """True while the process is in the table, as a zombie too."""
    return Path(f"/proc/{pid}").exists()


def test_the_driver_is_opened_once_and_kept_open(host: Host) -> None:
    host.read()
    pid = host.pid()
    host.faults.write_text("nvmlInitWithFlags -1 999\nnvmlDeviceGetHandleByIndex_v2 -1 999\n")

    assert all(gpu.up for gpu in host.read().gpus)
    assert host.pid() == pid


def test_a_lost_gpu_keeps_its_name_in_a_fresh_process(host: Host) -> None:
    """What the child forgets at its end the reader remembers, by the driver's order."""
    host.read()
    os.kill(host.pid(), signal.SIGKILL)
    host.faults.write_text("nvmlDeviceGetHandleByIndex_v2 1 15\n")
    host.read()
    host.let_backoff_pass()

    healthy, lost = host.read().gpus
    assert (healthy.uuid, lost.uuid, lost.name, lost.up) == (FIRST, SECOND, "NVIDIA H100 80GB HBM3", False)


@pytest.mark.parametrize(
    ("line", "fault", "words"),
    [
        ("nvmlInitWithFlags -1 18", GpuFault.VERSION_MISMATCH, "differ in version"),
        ("nvmlInitWithFlags -1 9", GpuFault.DRIVER_NOT_LOADED, "modprobe nvidia"),
        ("nvmlInitWithFlags -1 4", GpuFault.NO_PERMISSION, "/dev/nvidia*"),
        ("nvmlInitWithFlags -1 999", GpuFault.UNKNOWN, "restart the container"),
        ("nvmlInitWithFlags -1 20", GpuFault.UNKNOWN, "Insufficient Memory"),
        ("nvmlDeviceGetCount_v2 -1 1", GpuFault.UNKNOWN, "Uninitialized"),
        ("nvmlDeviceGetFieldValues 0 9", GpuFault.DRIVER_NOT_LOADED, "modprobe nvidia"),
    ],
)
def test_when_all_of_nvml_fails_the_host_says_why_and_a_fresh_process_recovers(
    host: Host, line: str, fault: GpuFault, words: str
) -> None:
    host.faults.write_text(line)
    survey = host.read()
    assert (survey.up, survey.gpus, survey.fault) == (False, (), fault)
    assert words in survey.why

    host.faults.write_text("")
    assert not host.read().up  # backing off: still what was last known
    host.let_backoff_pass()
    assert host.read().up


def test_a_driver_that_is_installed_later_is_found(make_host: MakeHost, driver: Path, tmp_path: Path) -> None:
    if ctypes.util.find_library("nvidia-ml"):
        pytest.skip("this machine has a driver library of its own")
    folder = tmp_path / "later"
    folder.mkdir()
    host = make_host(library=folder)

    survey = host.read()
    assert survey.fault is GpuFault.NO_LIBRARY
    assert survey.why == "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"

    shutil.copy(driver / "libnvidia-ml.so.1", folder)
    host.let_backoff_pass()
    assert host.read().up


def test_a_driver_library_that_is_none_is_told_from_a_missing_one(make_host: MakeHost, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")

    assert make_host(library=tmp_path).read().fault is GpuFault.NO_LIBRARY


@pytest.mark.parametrize(
    ("call", "about"), [("nvmlDeviceGetUtilizationRates 1", " about GPU 1"), ("nvmlDeviceGetCount_v2 -1", "")]
)
def test_a_hanging_driver_is_named_within_the_deadline_and_its_process_ended(
    make_host: MakeHost, call: str, about: str
) -> None:
    host = make_host(timeout=PROMPT)
    assert host.read_started().up
    pid = host.pid()
    host.faults.write_text(f"{call} -1\n")

    began = time.monotonic()
    survey = host.read()
    assert time.monotonic() - began < PROMPT.total_seconds() + 2  # seconds that a busy machine may need
    assert (survey.up, survey.fault) == (False, GpuFault.HANGING)
    assert survey.why == f"NVML did not answer{about} within 0.6 s; its reader is restarted"
    assert not exists(pid)

    host.faults.write_text("")
    host.let_backoff_pass()
    assert host.read_started().up


def test_a_driver_that_takes_long_to_open_is_waited_for(make_host: MakeHost) -> None:
    """Without persistence mode each GPU takes seconds: killing the process each time would never get there."""
    host = make_host(timeout=timedelta(seconds=0.2))
    host.faults.write_text("nvmlInitWithFlags -1 -1\n")

    first, second = host.read(), host.read()
    assert {first.fault, second.fault} == {GpuFault.STARTING}
    assert "being opened" in first.why
    host.pid()  # still there


def test_a_driver_that_never_opens_is_given_up(make_host: MakeHost) -> None:
    host = make_host(timeout=timedelta(seconds=0.4), start=timedelta(seconds=0.1))
    host.faults.write_text("nvmlInitWithFlags -1 -1\n")

    assert host.read_started().fault is GpuFault.HANGING
    assert host.reader._child is None


def test_a_child_that_dies_is_named_and_replaced_and_leaves_no_zombie(host: Host) -> None:
    host.read()
    pid = host.pid()
    os.kill(pid, signal.SIGSEGV)
    survey = host.read()

    if survey.up:  # it was reaped before it was asked: replaced at once
        assert host.pid() != pid
    else:
        assert survey.why == "the GPU reader ended (signal 11); it is restarted"
        assert survey.fault is GpuFault.READER_DIED
    host.let_backoff_pass()
    assert host.read().up
    assert not exists(pid)


def test_failures_in_a_row_wait_longer_and_a_success_forgets_them(host: Host) -> None:
    host.faults.write_text("nvmlInitWithFlags -1 9\n")
    starts = []
    for second in range(100):
        host.clock.seconds = float(second)
        if host.reader._failures < 6 and host.read() and host.reader._failures > len(starts):
            starts.append(second)

    assert starts == [0, 1, 3, 8, 18, 48]
    host.faults.write_text("")
    host.clock.seconds = 48.0 + 60.0
    assert host.read().up
    assert host.reader._failures == 0


def test_a_gpu_that_stays_lost_is_looked_at_by_a_fresh_process_now_and_then(host: Host) -> None:
    """A GPU that was reset comes back only in a process that opened the driver after it."""
    host.read()
    pid = host.pid()
    host.faults.write_text("nvmlDeviceGetUtilizationRates 1 15\n")
    for _ in range(20):
        assert [gpu.up for gpu in host.read().gpus] == [True, False]
    host.faults.write_text("")

    assert [gpu.up for gpu in host.read().gpus] == [True, True]
    assert host.pid() != pid


def test_closing_ends_the_child(host: Host) -> None:
    host.read()
    pid = host.pid()
    host.reader.close()

    assert not exists(pid)
    host.reader.close()


def test_a_child_that_cannot_be_started_is_a_reason_too(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.observe.gpu_process._COMMAND", ("/nowhere/python",))

    survey = host.read()
    assert survey.fault is GpuFault.READER_DIED
    assert "cannot be started" in survey.why


def test_a_child_that_does_not_even_die_is_not_joined_by_another(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process stuck in the driver outlives SIGKILL; starting one more each time would pile them up."""
    host = make_host(timeout=PROMPT)
    assert host.read_started().up
    stuck = host.reader._child
    assert stuck is not None
    monkeypatch.setattr(stuck._process, "kill", lambda: None)  # as good as a SIGKILL in state D
    host.faults.write_text("nvmlDeviceGetCount_v2 -1 -1\n")
    host.read()
    host.let_backoff_pass()

    survey = host.read()
    assert survey.why.startswith(f"the GPU reader (pid {stuck.pid}) is stuck inside the driver")
    os.kill(stuck.pid, signal.SIGKILL)
    stuck.exit_code(5.0)
    host.faults.write_text("")
    assert host.read_started().up
