"""Recorded machines under the real pynvml: every figure of each as it was recorded, or why it has none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.nvml_host import Host, MakeHost, build

from tidegate.model.gpu import ClockEvent, GpuFigure, GpuProcess, MemoryType, clock_events
from tidegate.model.reading import Gap, GpuReading, Missing, Number

NEVER = Missing(Gap.NOT_SUPPORTED)
FIRST_LOOK = Missing(Gap.ONE_SCRAPE)
GONE_PID = 4_000_000

H100 = {
    GpuFigure.UTILIZATION: 0.87,
    GpuFigure.MEMORY_BUSY: 0.05,
    GpuFigure.MEMORY_USED: 72477573120.0,
    GpuFigure.MEMORY_TOTAL: 85520809984.0,
    GpuFigure.MEMORY_RESERVED: 576716800.0,
    GpuFigure.POWER: 512.345,
    GpuFigure.POWER_LIMIT: 700.0,
    GpuFigure.ENERGY: 123456789.012,
    GpuFigure.TEMPERATURE: 61.0,
    GpuFigure.MEMORY_TEMPERATURE: 74.0,
    GpuFigure.TEMPERATURE_MARGIN: 26.0,
    GpuFigure.TEMPERATURE_SLOWDOWN: 89.0,
    GpuFigure.TEMPERATURE_SHUTDOWN: 92.0,
    GpuFigure.TEMPERATURE_MEMORY_MAX: 95.0,
    GpuFigure.SM_CLOCK: 1.755e9,
    GpuFigure.SM_CLOCK_MAX: 1.98e9,
    GpuFigure.MEMORY_CLOCK: 2.619e9,
    GpuFigure.MEMORY_CLOCK_MAX: 2.619e9,
    GpuFigure.CLOCK_EVENTS: 4.0,
    GpuFigure.SM_ACTIVITY: 0.625,
    GpuFigure.SM_OCCUPANCY: 0.3125,
    GpuFigure.TENSOR_ACTIVITY: 0.125,
    GpuFigure.DRAM_ACTIVITY: 0.5,
    GpuFigure.ECC_VOLATILE_CORRECTED: 12.0,
    GpuFigure.ECC_VOLATILE_UNCORRECTED: 0.0,
    GpuFigure.ECC_AGGREGATE_CORRECTED: 340.0,
    GpuFigure.ECC_AGGREGATE_UNCORRECTED: 2.0,
    GpuFigure.REMAPPED_CORRECTABLE: 0.0,
    GpuFigure.REMAPPED_UNCORRECTABLE: 1.0,
    GpuFigure.REMAP_PENDING: 1.0,
    GpuFigure.REMAP_FAILURE: 0.0,
    GpuFigure.RECOVERY_ACTION: 0.0,
    GpuFigure.PCIE_GENERATION: 5.0,
    GpuFigure.PCIE_GENERATION_MAX: 5.0,
    GpuFigure.PCIE_WIDTH: 16.0,
    GpuFigure.PCIE_WIDTH_MAX: 16.0,
    GpuFigure.PCIE_REPLAYS: 9.0,
    GpuFigure.PCIE_TRANSMIT_RATE: 2.0**30,
    GpuFigure.PCIE_RECEIVE_RATE: 2.0**31,
    GpuFigure.NVLINKS: 18.0,
    GpuFigure.NVLINK_TRANSMITTED: 1024.0 * (18 * 1000 + 153),
    GpuFigure.NVLINK_RECEIVED: 1024.0 * (18 * 2000 + 153),
    GpuFigure.NVLINK_CRC_ERRORS: 7.0,
    GpuFigure.NVLINK_REPLAY_ERRORS: 5.0,
    GpuFigure.NVLINK_RECOVERIES: 6.0,
    GpuFigure.NVLINK_RECEIVE_ERRORS: NEVER,
    GpuFigure.PERSISTENCE_MODE: 1.0,
    GpuFigure.MIG_MODE: 0.0,
    GpuFigure.PROCESSES: 0.0,
}


def twice(host: Host) -> GpuReading:
    """The first GPU at the second look: activity is what happened between two."""
    host.read()
    time.sleep(0.11)
    return host.read().gpus[0]


def missing(gpu: GpuReading) -> dict[GpuFigure, Gap]:
    return {figure: value.why for figure, value in gpu.figures.items() if isinstance(value, Missing)}


def test_an_h100_tells_every_figure(host: Host) -> None:
    first = host.read().gpus[0]
    assert missing(first) == {
        GpuFigure.NVLINK_RECEIVE_ERRORS: Gap.NOT_SUPPORTED,
        **dict.fromkeys((GpuFigure.SM_ACTIVITY, GpuFigure.SM_OCCUPANCY), Gap.ONE_SCRAPE),
        **dict.fromkeys((GpuFigure.TENSOR_ACTIVITY, GpuFigure.DRAM_ACTIVITY), Gap.ONE_SCRAPE),
        **dict.fromkeys((GpuFigure.PCIE_TRANSMIT_RATE, GpuFigure.PCIE_RECEIVE_RATE), Gap.ONE_SCRAPE),
    }

    time.sleep(0.11)
    second = host.read().gpus[0]
    assert dict(second.figures) == H100
    assert (second.bus_id, second.memory_type) == ("00000000:1B:00.0", MemoryType.DEVICE)
    assert set(H100) == set(GpuFigure)


def test_the_versions_of_the_driver_its_library_and_cuda_are_told(host: Host) -> None:
    survey = host.read()

    assert (survey.driver, survey.library, survey.cuda) == ("550.54.15", "12.550.54.15", "12.4")


@pytest.mark.parametrize(("machine", "most"), [("h200x8", 16), ("gb200x8", 16), ("geforce", 14)])
def test_a_survey_takes_few_calls(make_host: MakeHost, machine: str, most: int) -> None:
    """From the second one on, when it is known what the GPU has not."""
    host = make_host(machine)
    twice(host)
    time.sleep(0.11)
    survey = host.read()

    assert len({gpu.uuid for gpu in survey.gpus}) == len(survey.gpus)
    assert 0 < survey.calls <= most * len(survey.gpus) + 1


def test_an_h200_differs_in_its_size(make_host: MakeHost) -> None:
    gpu = twice(make_host("h200"))

    assert (gpu.name, gpu.memory_total_bytes, gpu.figure(GpuFigure.SM_ACTIVITY)) == (
        "NVIDIA H200",
        150754820096.0,
        0.625,
    )
    assert set(missing(gpu)) == {GpuFigure.NVLINK_RECEIVE_ERRORS}


def test_a_gb200_has_18_of_36_links_and_counts_their_errors_by_link(make_host: MakeHost) -> None:
    """The links that it lacks are an invalid argument, not unsupported; thresholds are told as margins alone."""
    gpu = twice(make_host("gb200"))

    assert gpu.figure(GpuFigure.NVLINKS) == 18.0
    assert gpu.figure(GpuFigure.NVLINK_TRANSMITTED) == 1024.0 * (18 * 1000 + 153)
    assert gpu.figure(GpuFigure.NVLINK_RECOVERIES) == 18.0
    assert gpu.figure(GpuFigure.NVLINK_RECEIVE_ERRORS) == 7.0
    assert gpu.figure(GpuFigure.RECOVERY_ACTION) == 1.0
    assert set(missing(gpu)) == {
        GpuFigure.NVLINK_CRC_ERRORS,
        GpuFigure.NVLINK_REPLAY_ERRORS,
        GpuFigure.TEMPERATURE_SLOWDOWN,
        GpuFigure.TEMPERATURE_SHUTDOWN,
        GpuFigure.TEMPERATURE_MEMORY_MAX,
    }


def test_one_link_that_does_not_answer_makes_the_sum_missing_not_smaller(host: Host) -> None:
    host.read()
    host.faults.write_text("field:138 0 10\n")
    gpu = host.read().gpus[0]

    assert gpu.figure(GpuFigure.NVLINK_TRANSMITTED) == Missing(Gap.UNREACHABLE)
    assert gpu.figure(GpuFigure.NVLINK_RECEIVED) == H100[GpuFigure.NVLINK_RECEIVED]


@pytest.mark.parametrize("machine", ["gb10", "gb10-lies"])
def test_a_chip_with_unified_memory_says_so_and_tells_no_size(make_host: MakeHost, machine: str) -> None:
    gpu = make_host(machine).read().gpus[0]

    assert (gpu.up, gpu.memory_type, gpu.utilization) == (True, MemoryType.UNIFIED, 0.35)
    assert gpu.memory_used_bytes == gpu.memory_total_bytes == gpu.memory_reserved_bytes == NEVER
    assert gpu.figure(GpuFigure.POWER_LIMIT) == NEVER


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("nvmlDeviceGetMemoryInfo_v2 0 15", MemoryType.UNKNOWN),  # lost
        ("nvmlDeviceGetMemoryInfo_v2 0 4", MemoryType.UNKNOWN),  # not allowed to know
        ("nvmlDeviceGetMemoryInfo_v2 0 10", MemoryType.UNKNOWN),
    ],
)
def test_a_sick_chip_does_not_look_unified(make_host: MakeHost, fault: str, kind: MemoryType) -> None:
    host = make_host("gb10")
    host.faults.write_text(fault)

    assert host.read().gpus[0].memory_type is kind


def test_a_common_gpu_without_memory_figures_is_not_called_unified(make_host: MakeHost) -> None:
    host = make_host("geforce")
    host.faults.write_text("nvmlDeviceGetMemoryInfo 0 3")

    gpu = host.read().gpus[0]
    assert (gpu.memory_type, gpu.memory_total_bytes) == (MemoryType.UNKNOWN, NEVER)


def test_a_consumer_card_says_why_each_figure_is_missing(make_host: MakeHost) -> None:
    gpu = twice(make_host("geforce"))

    assert gpu.power_watts == 44.1
    assert clock_events(gpu.figures[GpuFigure.CLOCK_EVENTS]) == {ClockEvent.BOARD_LIMIT}  # type: ignore[arg-type]
    gone = missing(gpu)
    assert set(gone.values()) == {Gap.NOT_SUPPORTED}
    assert {GpuFigure.ENERGY, GpuFigure.ECC_VOLATILE_CORRECTED, GpuFigure.SM_ACTIVITY, GpuFigure.NVLINKS} <= set(gone)
    assert gpu.figure(GpuFigure.REMAPPED_UNCORRECTABLE) == 0.0  # it answers, though it has none


def test_switched_off_ecc_is_told_from_none(make_host: MakeHost) -> None:
    off, none = make_host("ecc-off").read().gpus[0], make_host("geforce").read().gpus[0]

    assert off.figure(GpuFigure.ECC_VOLATILE_UNCORRECTED) == Missing(Gap.DISABLED)
    assert none.figure(GpuFigure.ECC_VOLATILE_UNCORRECTED) == NEVER


def test_an_a100_in_partitions_shares_the_memory_of_each_and_has_no_utilisation(make_host: MakeHost) -> None:
    gpu = twice(make_host("mig"))

    assert (gpu.utilization, gpu.figure(GpuFigure.MIG_MODE), gpu.figure(GpuFigure.SM_ACTIVITY)) == (NEVER, 1.0, NEVER)
    assert [(part.number, part.uuids) for part in gpu.instances] == [
        (1, ("MIG-0-1-0",)),
        (5, ("MIG-0-5-0", "MIG-0-5-1")),
        (13, ("MIG-0-13-0",)),
    ]
    two = gpu.instances[1].figures
    assert (two[GpuFigure.MEMORY_USED], two[GpuFigure.MEMORY_TOTAL]) == (5368709120.0, 10468982784.0)
    assert two[GpuFigure.TENSOR_ACTIVITY] == NEVER  # the A100 has no such counters
    assert gpu.instances[2].name.endswith("MIG 1g.5gb")


def test_an_h100_in_partitions_tells_the_activity_of_each(make_host: MakeHost) -> None:
    gpu = twice(make_host("h100-mig"))

    assert gpu.figure(GpuFigure.SM_ACTIVITY) == NEVER
    assert [part.figures[GpuFigure.SM_ACTIVITY] for part in gpu.instances] == [0.635, 0.675, 0.755]


@pytest.mark.parametrize(("flag", "figure", "value"), [
    ("-DWITHOUT_EVENT_REASONS", GpuFigure.CLOCK_EVENTS, 4.0),
    ("-DWITHOUT_FIELDS", GpuFigure.POWER, 512.345),
    ("-DWITHOUT_FIELDS", GpuFigure.ENERGY, 123456789.012),
    ("-DWITHOUT_FIELDS", GpuFigure.POWER_LIMIT, 700.0),
    ("-DWITHOUT_FIELDS", GpuFigure.NVLINKS, NEVER),
    ("-DWITHOUT_PROCESSES_V3", GpuFigure.PROCESSES, 0.0),
    ("-DWITHOUT_GPM", GpuFigure.SM_ACTIVITY, NEVER),
    ("-DWITHOUT_EVENTS", GpuFigure.UTILIZATION, 0.87),
])  # fmt: skip
def test_a_driver_from_before_a_call_is_read_by_the_earlier_one_or_told_apart(
    make_host: MakeHost, tmp_path: Path, flag: str, figure: GpuFigure, value: Number
) -> None:
    gpu = make_host(library=build(tmp_path, flag)).read().gpus[0]

    assert gpu.up
    assert gpu.figure(figure) == value


def test_what_a_gpu_once_lacked_is_not_asked_for_again(host: Host) -> None:
    """Until, much later, everything is asked for once more."""
    host.faults.write_text("nvmlDeviceGetMarginTemperature 0 3\n")
    host.read()
    host.faults.write_text("")
    again = host.read().gpus

    assert again[0].figure(GpuFigure.TEMPERATURE_MARGIN) == NEVER
    assert again[1].figure(GpuFigure.TEMPERATURE_MARGIN) == 54.0
    for _ in range(100):
        last = host.read().gpus[0]
    assert last.figure(GpuFigure.TEMPERATURE_MARGIN) == 26.0


@pytest.mark.parametrize(("code", "why"), [(4, Gap.UNAUTHORIZED), (999, Gap.NOT_FINITE)])
def test_an_activity_that_is_no_number_costs_that_one(host: Host, code: int, why: Gap) -> None:
    host.faults.write_text(f"gpm:10 0 {code}\n")
    gpu = twice(host)

    assert gpu.figure(GpuFigure.DRAM_ACTIVITY) == Missing(why)
    assert gpu.figure(GpuFigure.SM_ACTIVITY) == 0.625


def test_samples_are_given_back_to_the_driver(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host("h100-mig")
    host.faults.write_text("nvmlDeviceRegisterEvents -1 3\n")  # while a wait for events is under way nothing is closed
    twice(host)
    host.reader.close()

    assert (tmp_path / "left").read_text() == "samples 0\n"


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that lives, for the driver to list."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate()


def listed(host: Host, tmp_path: Path, *lines: str) -> tuple[GpuProcess, ...] | Missing:
    (tmp_path / "processes").write_text("".join(f"{line}\n" for line in lines))
    return host.read().gpus[0].processes


def test_processes_are_told_with_their_memory_and_partition(host: Host, tmp_path: Path, sleeper: int) -> None:
    mine = os.getpid()
    found = listed(host, tmp_path, f"0 {sleeper} 1000000 -1", f"0 {mine} -1 5", f"0 {GONE_PID} 5 -1", f"1 {mine} 7 -1")

    assert found == (GpuProcess(sleeper, 1000000.0), GpuProcess(mine, NEVER, 5))
    gpus = host.read().gpus
    assert [gpu.figure(GpuFigure.PROCESSES) for gpu in gpus] == [2.0, 1.0]


@pytest.mark.parametrize("line", ["0 0 1000 -1", "0 4294967295 1000 -1", "0 {mine} 85520809985 -1"])
def test_a_list_that_was_read_askew_is_dropped_whole(host: Host, tmp_path: Path, line: str) -> None:
    """Process 0, process 2^32 - 1, more memory than fitted: a driver whose structure is laid out differently."""
    mine = os.getpid()

    assert listed(host, tmp_path, f"0 {mine} 1000 -1", line.format(mine=mine)) == Missing(Gap.MALFORMED)
    assert host.read().gpus[0].figure(GpuFigure.PROCESSES) == Missing(Gap.MALFORMED)


def test_processes_of_which_none_exists_here_are_out_of_reach(host: Host, tmp_path: Path) -> None:
    """In a container that does not share the host's process numbers."""
    assert listed(host, tmp_path, f"0 {GONE_PID} 5 -1") == Missing(Gap.UNREACHABLE)
