"""Units through systemd, against a `systemctl` of our own on PATH that keeps its units in a folder."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.agent_parts import ManualClock, replica

from tidegate.act.records import Records
from tidegate.act.systemd_units import SystemdTemplate, SystemdUnits, unit_name
from tidegate.model.fleet import ReplicaState
from tidegate.model.target import UnitStatus
from tidegate.runtime.errors import Permanent, Transient

_SYSTEMCTL = """\
#!/bin/sh
# State of unit U: the file $UNITS/U, as LOAD ACTIVE RESULT STATUS JOB. Commands are noted in $UNITS/calls.
echo "$*" >> "$UNITS/calls"
[ "$1" = --no-ask-password ] && shift
[ -f "$UNITS/refuse" ] && { cat "$UNITS/refuse" >&2; exit 1; }
verb=$1; shift
case $verb in
start) echo "loaded activating success 0 17" > "$UNITS/$2" ;;
stop) echo "loaded deactivating success 0 18" > "$UNITS/$2" ;;
show)
  shift
  for unit in "$@"; do
    read -r load active result status job < "$UNITS/$unit" || { load=not-found active=inactive status=0 job=0; }
    printf '%s\\n' LoadState=$load ActiveState=$active Result=$result ExecMainStatus=$status Job=$job ''
  done 2> /dev/null ;;
esac
"""
TEMPLATE = SystemdTemplate("vllm@{slot}.service", {"MODEL": 'a "b" $HOME \\ `c`'})
UNIT = "vllm@0.service"


class Systemd:
    def __init__(self, folder: Path) -> None:
        self.state, self.folder, self.clock = folder / "systemd", folder / "units", ManualClock()
        self.state.mkdir()
        self.is_now("loaded inactive success 0 0")
        self.agent()

    def agent(self) -> None:
        self.units = SystemdUnits({"vllm": TEMPLATE}, self.folder, self.clock)

    def is_now(self, text: str, unit: str = UNIT) -> None:
        (self.state / unit).write_text(text + "\n")

    def refuses(self, text: str) -> None:
        (self.state / "refuse").write_text(text)

    def calls(self, verb: str) -> int:
        notes = self.state / "calls"
        lines = notes.read_text().splitlines() if notes.exists() else []
        return sum(line.split()[1] == verb for line in lines)

    def status(self) -> UnitStatus:
        (status,) = self.units.statuses()
        return status


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(_SYSTEMCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    made = Systemd(tmp_path)
    monkeypatch.setenv("UNITS", str(made.state))
    return made


def test_a_unit_is_started_once_and_followed(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.units.start(replica("b-1"))
    assert systemd.calls("start") == 1
    assert systemd.status().state is ReplicaState.BOOTING
    systemd.is_now("loaded active success 0 0")
    assert systemd.status() == UnitStatus("b-1", ReplicaState.LOADING, "", "vllm", 0, (0,))


def test_a_queued_start_is_not_a_dead_unit(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.is_now("loaded inactive success 0 17")
    assert systemd.status().state is ReplicaState.BOOTING


def test_the_environment_file_is_private_and_reads_back_in_a_shells_quotes(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    path = systemd.folder / f"{UNIT}.env"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = subprocess.run(
        ["/bin/sh", "-c", f'. {path}; printf "%s|%s|%s" "$MODEL" "$TIDEGATE_PORT" "$CUDA_VISIBLE_DEVICES"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == 'a "b" $HOME \\ `c`|8100|0'


def test_a_stop_is_asked_once_and_the_unit_forgotten_when_it_is_gone(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.is_now("loaded active success 0 0")
    systemd.units.stop("b-1", 0, "vllm")
    systemd.units.stop("b-1", 0, "vllm")
    assert systemd.calls("stop") == 1
    assert systemd.status().state is ReplicaState.DRAINING
    systemd.is_now("loaded inactive success 0 0")
    assert systemd.status().state is ReplicaState.STOPPED
    systemd.units.stop("b-1", 0, "vllm")
    assert systemd.units.statuses() == []
    assert not (systemd.folder / f"{UNIT}.env").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "loaded failed exit-code 3 0",
            "vllm@0.service failed (exit-code, status 3); see `journalctl -u vllm@0.service`",
        ),
        ("loaded failed oom-kill 9 0", "vllm@0.service failed (oom-kill, status 9)"),
        ("loaded inactive success 0 0", "it ended by itself or somebody stopped it"),
        ("not-found inactive success 0 0", "systemd knows no unit vllm@0.service any more"),
    ],
)
def test_a_unit_that_ended_says_why(systemd: Systemd, text: str, says: str) -> None:
    systemd.units.start(replica("b-1"))
    systemd.is_now(text)
    assert systemd.status().state is ReplicaState.FAILED
    assert says in systemd.status().why


def test_a_new_agent_finds_its_units(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.is_now("loaded active success 0 0")
    systemd.agent()
    assert systemd.status().state is ReplicaState.LOADING
    systemd.units.start(replica("b-1"))
    assert systemd.calls("start") == 1


@pytest.mark.parametrize(("text", "found"), [("loaded active success 0 0", 1), ("loaded inactive success 0 0", 0)])
def test_an_agent_that_died_while_starting_finds_out_whether_it_did(systemd: Systemd, text: str, found: int) -> None:
    systemd.units.start(replica("b-1"))
    records = Records(systemd.folder, "systemd")
    record = records.get("b-1")
    assert record is not None
    records.write(replace(record, begun=False))
    systemd.is_now(text)
    systemd.agent()
    assert len(systemd.units.statuses()) == found


def test_a_unit_that_runs_already_is_not_ours(systemd: Systemd) -> None:
    systemd.is_now("loaded active success 0 0")
    with pytest.raises(Permanent, match="already runs and is not ours"):
        systemd.units.start(replica("b-1"))
    assert systemd.calls("start") == 0
    systemd.units.stop("b-1", 0, "vllm")
    assert systemd.calls("stop") == 0


def test_a_unit_that_is_not_installed_is_permanent(systemd: Systemd) -> None:
    systemd.is_now("not-found inactive success 0 0")
    with pytest.raises(Permanent, match="systemctl daemon-reload"):
        systemd.units.start(replica("b-1"))


def test_a_refusal_names_the_rule_that_is_missing(systemd: Systemd) -> None:
    systemd.refuses("Failed to start vllm@0.service: Access denied\n")
    with pytest.raises(Permanent, match=r"Access denied.*tidegate-agent\.rules"):
        systemd.units.start(replica("b-1"))


def test_a_systemd_that_does_not_answer_is_transient(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.refuses("Failed to connect to bus: No such file or directory\n")
    with pytest.raises(Transient, match="Failed to connect to bus"):
        systemd.units.statuses()


def test_no_systemctl_is_permanent(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(systemd.state))
    with pytest.raises(Permanent, match="kind `process`"):
        systemd.units.start(replica("b-1"))


@pytest.mark.parametrize(
    "text", ["--force.service", "a b@{slot}.service", "../x@{slot}.service", "vllm@{slot}", "{pool}/x.service"]
)
def test_what_is_no_unit_name_is_refused(text: str) -> None:
    with pytest.raises(Permanent, match="is no service unit's name"):
        unit_name(SystemdTemplate(text), replica("b-1"))


def test_times_are_the_clocks(systemd: Systemd) -> None:
    systemd.units.start(replica("b-1"))
    systemd.clock.pass_by(timedelta(hours=1))
    record = Records(systemd.folder, "systemd").get("b-1")
    assert record is not None
    assert record.began == systemd.clock.monotonic() - 3600
