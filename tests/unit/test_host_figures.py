"""A host's own figures: every byte of the network once, sizes in bytes, and a reason for what cannot be read."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.machine import MachineFigure
from tidegate.model.missing import Gap, Missing
from tidegate.observe import host
from tidegate.observe.host import HostFigures, memory_bytes, network_bytes, physical, process_figures

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0
  eth0:2000 20 0 0 0 0 0 0 3000 30 0 0 0 0 0 0
eth0.100: 700 7 0 0 0 0 0 0 800 8 0 0 0 0 0 0
 bond0: 2500 25 0 0 0 0 0 0 3500 35 0 0 0 0 0 0
 veth1: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
docker0: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
broken: x
  eth1: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0
"""


def fake_host(tmp_path: Path, *with_hardware: str) -> HostFigures:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    for folder in (proc / "net", proc / "self/fd", proc / "sys/kernel/random", sys / "class/net"):
        folder.mkdir(parents=True)
    (proc / "net/dev").write_text(NET_DEV)
    (proc / "meminfo").write_text("MemTotal:  1024 kB\nMemAvailable:  512 kB\nHugePages_Total:  7\n")
    (proc / "sys/kernel/random/boot_id").write_text("0b0e-f00d\n")
    (proc / "self/stat").write_text(f"7 (a) b) S {' '.join('0' * 10)} 100 50 {' '.join('0' * 8)} 3 0\n")
    for place in range(4):
        (proc / "self/fd" / str(place)).touch()
    for device in with_hardware:
        (sys / "class/net" / device / "device").mkdir(parents=True)
    return HostFigures(tmp_path, proc, sys)


def devices(reader: HostFigures) -> list[str]:
    return [device for figure, device in reader.read().figures if figure is MachineFigure.NETWORK_RECEIVED]


def test_a_host_is_read_whole(tmp_path: Path) -> None:
    machine = fake_host(tmp_path, "eth0", "eth1").read()

    assert machine.boot_id == "0b0e-f00d"
    assert machine.figure(MachineFigure.NETWORK_RECEIVED, "eth0") == 2000.0
    assert machine.figure(MachineFigure.NETWORK_TRANSMITTED, "eth0") == 3000.0
    assert machine.figure(MachineFigure.MEMORY) == 1024 * 1024
    assert machine.figure(MachineFigure.MEMORY_AVAILABLE) == 512 * 1024
    assert machine.figure(MachineFigure.AGENT_CPU) == 150 / os.sysconf("SC_CLK_TCK")
    assert machine.figure(MachineFigure.AGENT_MEMORY) == 3 * os.sysconf("SC_PAGE_SIZE")
    assert machine.figure(MachineFigure.AGENT_FILES) == 3.0
    told = os.statvfs(tmp_path)
    assert machine.figure(MachineFigure.MODEL_STORE) == told.f_blocks * told.f_frsize


def test_interfaces_with_hardware_count_and_what_repeats_them_does_not(tmp_path: Path) -> None:
    """A bond and a VLAN carry the same bytes once more; loopback and containers' carry none that leave."""
    assert devices(fake_host(tmp_path, "eth0", "eth1")) == ["eth0", "eth1"]


def test_a_virtual_function_is_part_of_its_card(tmp_path: Path) -> None:
    reader = fake_host(tmp_path, "eth0", "eth1")
    (tmp_path / "sys/class/net/eth1/device/physfn").mkdir()

    assert devices(reader) == ["eth0"]


def test_in_a_container_where_nothing_has_hardware_names_decide() -> None:
    assert physical(network_bytes(NET_DEV), ()) == ["eth0", "eth1"]


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    machine = HostFigures(tmp_path / "gone", tmp_path, tmp_path).read()

    assert machine.boot_id == ""
    assert set(machine.figures.values()) == {Missing(Gap.UNREACHABLE)}
    assert {figure for figure, _ in machine.figures} == set(MachineFigure)


def test_without_a_model_store_its_figures_are_absent() -> None:
    assert (MachineFigure.MODEL_STORE, "") not in HostFigures(None).read().figures


def test_this_very_process_is_told_truthfully() -> None:
    machine = HostFigures(None).read()

    resident, files = machine.figure(MachineFigure.AGENT_MEMORY), machine.figure(MachineFigure.AGENT_FILES)
    assert isinstance(resident, float)
    assert 0 < resident <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert isinstance(files, float)
    assert files > 2


def test_a_model_store_that_hangs_costs_its_figures_and_no_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, looks = Event(), []

    def hang(folder: Path) -> dict[object, object]:
        looks.append(folder)
        let_go.wait(10.0)
        return {}

    monkeypatch.setattr(host, "disk_bytes", hang)
    monkeypatch.setattr(host, "_DISK_SECONDS", 0.01)
    reader = fake_host(tmp_path)

    for _ in range(2):
        machine = reader.read()
        assert machine.figure(MachineFigure.MODEL_STORE) == Missing(Gap.UNREACHABLE)
        assert machine.figure(MachineFigure.MEMORY) == 1024 * 1024
    assert looks == [tmp_path]
    let_go.set()
    reader.close()


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    network_bytes(text)
    memory_bytes(text)
    process_figures(text)
