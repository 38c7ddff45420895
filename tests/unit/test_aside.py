"""Work in a process beside: answers and errors come back, and its end is told to everybody who waits."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.runtime.aside import Aside
from tidegate.runtime.errors import Permanent, Transient

_MODULE = """
import os, time
from tidegate.runtime.aside import answer_calls
from tidegate.runtime.errors import Permanent

def open_work(first):
    def work(what, *given):
        if what == "first":
            return first
        if what == "pid":
            return os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)
        if what == "sum":
            return sum(given)
        if what == "wait":
            time.sleep(given[0])
            return given[0]
        if what == "write":
            os.write(given[0], given[1].encode())
            return None
        if what == "explained":
            raise Permanent("look at the disk")
        raise KeyError(what)
    return work

answer_calls(open_work)
"""


@pytest.fixture
def aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aside]:
    (tmp_path / "worker_of_the_test.py").write_text(_MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = Aside("worker_of_the_test", {"secret": "s3cret"}, back=10)
    yield made
    made.close()


def test_answers_come_from_another_process_that_stands_back(aside: Aside) -> None:
    assert aside.pid is None, "nothing is started before the first call"
    pid, niceness = aside.call("pid")
    assert pid == aside.pid != os.getpid()
    assert niceness == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert aside.call("sum", 1, 2, 3) == 6
    assert aside.call("first") == {"secret": "s3cret"}


def test_a_secret_is_on_no_command_line(aside: Aside) -> None:
    aside.call("pid")
    assert b"s3cret" not in Path(f"/proc/{aside.pid}/cmdline").read_bytes()
    assert b"s3cret" not in Path(f"/proc/{aside.pid}/environ").read_bytes()


def test_calls_do_not_wait_for_each_other(aside: Aside) -> None:
    told: list[Transient] = []
    slow = threading.Thread(target=wait_for, args=(aside, told))
    slow.start()
    assert aside.call("sum", 1, 1) == 2
    aside.close()
    slow.join(20)
    assert len(told) == 1, "and its end ends their waiting"


def wait_for(aside: Aside, told: list[Transient]) -> None:
    """Wait for an answer that does not come; what is said instead goes into `told`."""
    try:
        aside.call("wait", 600)
    except Transient as error:
        told.append(error)


def test_errors_are_the_callers(aside: Aside) -> None:
    with pytest.raises(Permanent, match="look at the disk"):
        aside.call("explained")
    with pytest.raises(RuntimeError, match="KeyError: 'unknown'"):
        aside.call("unknown")
    assert aside.call("sum", 2) == 2, "and the next call finds it well"


def test_after_its_end_it_is_started_anew(aside: Aside) -> None:
    first, _ = aside.call("pid")
    told: list[Transient] = []
    waiting = threading.Thread(target=wait_for, args=(aside, told))
    waiting.start()
    assert aside.call("sum", 1) == 1
    os.kill(first, signal.SIGKILL)
    waiting.join(20)
    assert "has ended (-9)" in str(told[0])
    second, _ = aside.call("pid")
    assert second != first


def test_it_ends_when_its_caller_is_gone(aside: Aside) -> None:
    pid, _ = aside.call("pid")
    child = aside._child
    assert child is not None
    with socket.socket(fileno=os.dup(child._connection.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
    assert child.process.wait(20) == 0
    assert pid == child.process.pid


def test_what_is_told_starts_nothing(aside: Aside) -> None:
    aside.tell("sum", 1)
    assert aside.pid is None
    pid, _ = aside.call("pid")
    aside.tell("unknown")
    assert aside.call("pid")[0] == pid, "and what comes of it is nobody's"


def test_one_that_hangs_is_ended_and_started_anew(aside: Aside) -> None:
    first, _ = aside.call("pid")
    os.kill(first, signal.SIGSTOP)
    answer = aside.begin("sum", 1)
    with pytest.raises(TimeoutError):
        answer.result(0.2)
    aside.renew()
    with pytest.raises(Transient, match="has ended"):
        answer.result(20)
    assert aside.call("pid")[0] != first


def test_files_are_handed_on_by_their_numbers(aside: Aside, tmp_path: Path) -> None:
    with (tmp_path / "handed-on").open("w") as file:
        made = Aside("worker_of_the_test", None, files=[file.fileno()])
        made.call("write", file.fileno(), "from the other side")
        made.close()
    assert (tmp_path / "handed-on").read_text() == "from the other side"


def test_nothing_is_begun_after_the_end(aside: Aside) -> None:
    aside.close()
    with pytest.raises(Transient, match="stopping"):
        aside.call("pid")
    assert aside.pid is None
