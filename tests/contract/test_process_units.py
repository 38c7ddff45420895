"""Units as real processes: they outlive the agent, are found again, end in order, and say how they died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from fakes.agent_parts import ManualClock, replica

from tidegate.act import proc
from tidegate.act.host_units import HostUnits
from tidegate.act.process_units import ProcessTemplate, ProcessUnits
from tidegate.act.records import Records
from tidegate.model.fleet import ReplicaState
from tidegate.model.target import UnitStatus
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Permanent
from tidegate.wire import DesiredReplica

SLEEP = ProcessTemplate(("/bin/sleep", "60"), stop_timeout=timedelta(seconds=30))
DEAF = ProcessTemplate(("/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"))
WRAPPED = ProcessTemplate(("/bin/sh", "-c", "sleep 60; true"))
_LEAVE = "import ctypes as c, threading as t; t.Thread(target=t.Event().wait).start(); c.CDLL(None).pthread_exit(None)"
HEADLESS = ProcessTemplate((sys.executable, "-c", _LEAVE))
"""Its main thread ends, another one goes on."""


def eventually(found: Callable[[], bool]) -> None:
    for _ in range(400):
        if found():
            return
        SystemClock().wait(Event(), timedelta(seconds=0.02))
    raise AssertionError("it did not come to that")


class Host:
    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.children: list[subprocess.Popen[bytes]] = []
        self.agent()

    def agent(self) -> None:
        """A new life of the agent, which knows no child of the one before."""
        self.units = ProcessUnits({"vllm": SLEEP}, self.folder, self.clock)

    def start(self, template: ProcessTemplate = SLEEP, name: str = "b-1") -> None:
        self.units.use({"vllm": template})
        self.units.start(replica(name))
        self.children += self.units._children.values()

    def status(self, name: str = "b-1") -> UnitStatus | None:
        return next((one for one in self.units.statuses() if one.replica_id == name), None)

    def state(self, name: str = "b-1") -> ReplicaState | None:
        status = self.status(name)
        return status.state if status else None

    def pid(self, name: str = "b-1") -> int:
        record = Records(self.folder, "process").get(name)
        assert record is not None
        return record.pid

    def stop(self, name: str = "b-1") -> None:
        self.units.stop(name, 0, "vllm")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "units")
    yield made
    for record in Records(made.folder, "process").all():
        if record.pid:
            proc.send(proc.session_of(record.pid, record.ticks), signal.SIGKILL)
    for child in made.children:
        child.wait(10.0)


def test_a_unit_starts_in_a_session_of_its_own_and_starting_again_changes_nothing(host: Host) -> None:
    host.start()
    pid = host.pid()
    assert host.state() is ReplicaState.LOADING
    assert os.getsid(pid) == pid != os.getsid(0)
    host.start()
    assert host.pid() == pid


def test_a_new_agent_finds_its_running_units(host: Host) -> None:
    host.start()
    pid = host.pid()
    host.agent()
    status = host.status()
    assert status is not None
    assert (status.state, status.template, status.slot, status.gpus) == (ReplicaState.LOADING, "vllm", 0, (0,))
    host.start()
    assert host.pid() == pid


def test_an_agent_that_died_before_it_wrote_the_pid_finds_the_process_by_its_mark(host: Host) -> None:
    host.start()
    pid, records = host.pid(), Records(host.folder, "process")
    record = records.get("b-1")
    assert record is not None
    records.write(replace(record, begun=False, pid=0, ticks=0))
    host.agent()
    assert host.state() is ReplicaState.LOADING
    assert host.pid() == pid


def test_a_record_without_any_process_is_no_unit(host: Host) -> None:
    host.start()
    records = Records(host.folder, "process")
    record = records.get("b-1")
    assert record is not None
    records.write(replace(record, replica_id="b-2", begun=False, pid=0))
    assert host.state("b-2") is None
    assert records.get("b-2") is None


def test_stopping_asks_first_and_forgets_once_it_has_ended(host: Host) -> None:
    host.start()
    host.stop()
    eventually(lambda: host.state() is ReplicaState.STOPPED)
    host.stop()
    assert host.status() is None
    host.stop()


def test_a_unit_that_does_not_listen_is_killed_after_its_time(host: Host) -> None:
    host.start(DEAF)
    eventually(lambda: (host.folder / "b-1.log").read_text() == "deaf\n")
    host.stop()
    host.stop()
    assert host.state() is ReplicaState.DRAINING
    host.clock.pass_by(timedelta(seconds=30))
    host.stop()
    eventually(lambda: host.state() is ReplicaState.STOPPED)


def test_the_children_of_a_shell_are_stopped_too(host: Host) -> None:
    host.start(WRAPPED)
    pid, ticks = host.pid(), Records(host.folder, "process").all()[0].ticks
    eventually(lambda: len(proc.session_of(pid, ticks)) == 2)
    host.stop()
    eventually(lambda: all(process.pid != pid for process in proc.session_of(pid, ticks)))
    host.stop()
    eventually(lambda: host.state() is ReplicaState.STOPPED)
    assert proc.session_of(pid, ticks) == []


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo out of luck; exit 3", "exited with 3 after 0 s; {log} ends with: out of luck"),
        ("kill -KILL $$", "killed by SIGKILL (out of memory?) after 0 s; {log} is empty"),
    ],
)
def test_a_unit_that_dies_says_how_and_stays_dead(host: Host, script: str, says: str) -> None:
    host.start(ProcessTemplate(("/bin/sh", "-c", script)))
    eventually(lambda: host.state() is ReplicaState.FAILED)
    status = host.status()
    assert status is not None
    assert status.why == says.format(log=host.folder / "b-1.log")
    host.start()
    assert host.state() is ReplicaState.FAILED
    host.agent()
    again = host.status()
    assert again is not None
    assert again.why == status.why, "the next agent knows it too"


def test_a_unit_whose_main_thread_has_ended_lives_while_another_one_does(host: Host) -> None:
    host.start(HEADLESS)
    stat = Path(f"/proc/{host.pid()}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    assert host.state() is ReplicaState.LOADING
    host.stop()
    eventually(lambda: host.state() is ReplicaState.STOPPED)


def test_a_unit_of_an_earlier_boot_is_failed_and_no_stranger_is_touched(host: Host) -> None:
    host.start()
    records = Records(host.folder, "process")
    record = records.get("b-1")
    assert record is not None
    records.write(replace(record, boot="another boot"))
    status = host.status()
    assert status is not None
    assert (status.state, status.why) == (ReplicaState.FAILED, "the host was restarted")
    host.stop()
    assert proc.look(record.pid) is not None
    records.write(record)


def test_a_pid_that_another_process_has_now_is_not_ours(host: Host) -> None:
    host.start()
    records = Records(host.folder, "process")
    record = records.get("b-1")
    assert record is not None
    records.write(replace(record, ticks=record.ticks - 1))
    assert host.state() is ReplicaState.FAILED
    host.stop()
    assert proc.look(record.pid) is not None
    records.write(record)


def test_a_stopped_unit_may_be_started_anew(host: Host) -> None:
    host.start()
    pid = host.pid()
    host.stop()
    eventually(lambda: host.state() is ReplicaState.STOPPED)
    host.start()
    assert host.state() is ReplicaState.LOADING
    assert host.pid() != pid


def test_a_command_that_does_not_exist_is_permanent_and_leaves_no_record(host: Host) -> None:
    with pytest.raises(Permanent, match=r"cannot run '/no/such': No such file or directory; mend its `command`"):
        host.start(ProcessTemplate(("/no/such", "{port}")))
    assert host.status() is None


def test_an_unknown_template_is_permanent_and_named(host: Host) -> None:
    unknown = replica("b-1").model_copy(update={"template": "sglang"})
    with pytest.raises(Permanent, match=r"no \[\[template\]\] named 'sglang'"):
        HostUnits((host.units,)).start(unknown)


def test_what_systemd_told_the_agent_does_not_reach_the_engine(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    shown = ("import os, json; print(json.dumps(dict(os.environ)))",)
    host.start(ProcessTemplate((sys.executable, "-c", *shown), {"MODEL": "{service} on {gpus}", "NOT": '{"a": 1}'}))
    eventually(lambda: host.state() is ReplicaState.FAILED)
    seen = json.loads((host.folder / "b-1.log").read_text())
    assert "NOTIFY_SOCKET" not in seen
    assert "WATCHDOG_USEC" not in seen
    assert (seen["MODEL"], seen["NOT"]) == ("chat on 0", '{"a": 1}')
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["TIDEGATE_PORT"]) == ("0", "8100")


def test_a_replica_id_cannot_leave_the_folder(host: Host) -> None:
    name = "b/../../../tmp/x"
    host.start(name=name)
    assert [path.parent for path in host.folder.parent.rglob("*.json")] == [host.folder]
    host.stop(name)
    eventually(lambda: host.state(name) is ReplicaState.STOPPED)


def test_a_record_that_cannot_be_read_is_set_aside(host: Host) -> None:
    host.start()
    (host.folder / "b-9.process.json").write_text("{")
    assert [one.replica_id for one in host.units.statuses()] == ["b-1"]
    assert (host.folder / "b-9.process.unreadable").exists()


def test_control_characters_from_the_controller_are_refused(host: Host) -> None:
    odd: DesiredReplica = replica("b-1").model_copy(update={"service": "chat\nLD_PRELOAD=/tmp/x"})
    with pytest.raises(Permanent, match="control characters"):
        host.units.start(odd)
    assert host.status() is None


def test_a_log_beyond_its_bound_is_moved_on(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.act.unit_log._LARGEST_BYTES", 10)
    host.start()
    (host.folder / "b-1.log").write_text("line\n" * 10)
    host.status()
    assert (host.folder / "b-1.log").read_text() == ""
    assert (host.folder / "b-1.log.1").read_text() == "line\n" * 10
