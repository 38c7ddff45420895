"""What the real pynvml reads in the real child process, and what one sick GPU or figure costs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fakes.nvml_host import FIRST, SECOND, Host, MakeHost, build

from tidegate.model.reading import Gap, GpuFigure, Missing

PER_GPU = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetFieldValues",
    "field:83",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlGpmSampleGet",
)
"""What is asked of each GPU at each survey."""
CODES = {15: "GPU is lost", 16: "GPU requires restart", 28: "GPU not found", 999: "Unknown Error"}


def test_two_h100_are_read_as_recorded(host: Host) -> None:
    survey = host.read()

    assert (survey.up, survey.why, survey.driver, survey.source, survey.at) == (True, "", "550.54.15", "nvml", host.now)
    busy, idle = survey.gpus
    assert (busy.uuid, busy.index, busy.name, busy.up) == (FIRST, 0, "NVIDIA H100 80GB HBM3", True)
    assert (idle.uuid, idle.index, idle.utilization, idle.memory_used_bytes) == (SECOND, 1, 0.0, 0.0)
    assert busy.utilization == 0.87
    assert (busy.memory_total_bytes, busy.memory_reserved_bytes) == (85520809984.0, 576716800.0)
    assert busy.memory_used_bytes == 72477573120.0
    assert (busy.power_watts, busy.energy_joules, busy.temperature_celsius) == (512.345, 123456789.012, 61.0)


def test_a_consumer_card_lacks_figures_and_says_which(make_host: MakeHost) -> None:
    """No energy counter, no version 2 of the memory call: used then contains what the driver reserves."""
    [gpu] = make_host("geforce").read().gpus

    assert gpu.up
    assert gpu.energy_joules == gpu.memory_reserved_bytes == Missing(Gap.NOT_SUPPORTED)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (1234567168.0, 25757220864.0)
    assert gpu.utilization == 0.12


def test_a_partitioned_gpu_has_no_utilisation_rather_than_zero(make_host: MakeHost) -> None:
    [gpu] = make_host("mig").read().gpus

    assert gpu.utilization == Missing(Gap.NOT_SUPPORTED)
    assert gpu.memory_used_bytes == 104857600.0


def test_a_driver_from_before_memory_version_two_is_read_by_version_one(make_host: MakeHost, tmp_path: Path) -> None:
    gpu = make_host(library=build(tmp_path, "-DWITHOUT_MEMORY_V2")).read().gpus[0]

    assert gpu.memory_used_bytes == 72477573120.0 + 576716800.0
    assert gpu.memory_reserved_bytes == Missing(Gap.NOT_SUPPORTED)


def test_names_that_are_no_text_cost_the_names_alone(make_host: MakeHost, tmp_path: Path) -> None:
    first, second = make_host(library=build(tmp_path, "-DBAD_WORDS")).read().gpus

    assert (first.uuid, second.uuid) == ("unknown-gpu-0", "unknown-gpu-1")
    assert first.utilization == 0.87


def test_a_machine_whose_driver_lists_no_gpu_is_up_and_empty(make_host: MakeHost) -> None:
    survey = make_host("none").read()

    assert (survey.up, survey.gpus) == (True, ())


@pytest.mark.parametrize("code", [15, 16, 28, 999])
def test_a_gpu_that_is_lost_at_any_call_keeps_its_name_and_hides_no_neighbour(host: Host, code: int) -> None:
    host.read()
    for call in PER_GPU:
        if code == 999 and call in ("field:83", "nvmlGpmSampleGet"):
            continue  # one field, or another profiler's doing: not the GPU
        time.sleep(0.11)  # activity is not sampled more often
        host.faults.write_text(f"{call} 1 {code}\n")
        healthy, lost = host.read().gpus

        assert (healthy.uuid, healthy.up, healthy.utilization) == (FIRST, True, 0.87), call
        assert (lost.uuid, lost.up, lost.utilization) == (SECOND, False, Missing(Gap.NOT_REPORTED)), call
        assert lost.why == f"NVML answers: {CODES[code]}"


@pytest.mark.parametrize("call", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName"])
def test_a_gpu_that_is_lost_before_it_said_its_name_hides_no_neighbour(host: Host, call: str) -> None:
    host.faults.write_text(f"{call} 0 15\n")
    lost, healthy = host.read().gpus

    assert (lost.uuid, lost.up, lost.why) == ("unknown-gpu-0", False, "NVML answers: GPU is lost")
    assert (healthy.uuid, healthy.up) == (SECOND, True)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (2, Gap.NOT_SUPPORTED),
        (3, Gap.NOT_SUPPORTED),
        (4, Gap.UNAUTHORIZED),
        (6, Gap.NOT_SUPPORTED),
        (10, Gap.UNREACHABLE),
        (13, Gap.NOT_SUPPORTED),
        (25, Gap.NOT_SUPPORTED),
        (27, Gap.STARTING),
    ],
)
def test_an_error_of_one_figure_costs_that_figure(host: Host, code: int, why: Gap) -> None:
    host.faults.write_text(f"nvmlDeviceGetTemperature 0 {code}\nfield:94 0 {code}\n")
    first, second = host.read().gpus

    assert (first.up, first.temperature_celsius, first.utilization) == (True, Missing(why), 0.87)
    assert (first.figure(GpuFigure.PCIE_REPLAYS), first.power_watts) == (Missing(why), 512.345)
    assert second.temperature_celsius == 33.0


def test_a_figure_that_the_driver_marks_as_not_available_is_missing(host: Host) -> None:
    host.faults.write_text("power-not-available 0 1\nfield:185 0 3\nfield:186 0 3\n")

    assert host.read().gpus[0].power_watts == Missing(Gap.NOT_SUPPORTED)
