"""The families about GPUs: one for each declared figure, with what it means in words."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.expose.family import GPU, Family, counter, gauge
from tidegate.model.gpu import COUNTERS, GpuFigure

INSTANCE = (*GPU, "gpu_instance")

_FLAG = "1 when so, 0 when not"
_ACTIVITY = "from the hardware's counters, 0..1, since the survey before; Hopper and later"
_LOADED = "since the driver was loaded"
_LIFE = "over the life of the GPU"

TEXTS: Mapping[GpuFigure, str] = {
    GpuFigure.UTILIZATION: "Share of the driver's sample period with a kernel resident, 0..1: busy, not how busy.",
    GpuFigure.MEMORY_USED: "GPU memory in use, without what the driver reserves where it tells them apart.",
    GpuFigure.MEMORY_TOTAL: "GPU memory fitted.",
    GpuFigure.MEMORY_RESERVED: "GPU memory that the driver keeps for itself.",
    GpuFigure.POWER: "Power drawn, the driver's average over a second where it makes one.",
    GpuFigure.ENERGY: f"Energy used {_LOADED}; a jump that the power limit rules out is left out.",
    GpuFigure.TEMPERATURE: "Temperature of the GPU die.",
    GpuFigure.MEMORY_BUSY: "Share of the driver's sample period with GPU memory read or written, 0..1: not how full.",
    GpuFigure.MEMORY_TEMPERATURE: "Temperature of the GPU memory.",
    GpuFigure.TEMPERATURE_MARGIN: "Degrees left until the GPU slows itself down; below zero when it does.",
    GpuFigure.TEMPERATURE_SLOWDOWN: "Temperature of the die at which the GPU slows itself down.",
    GpuFigure.TEMPERATURE_SHUTDOWN: "Temperature of the die at which the GPU shuts itself down.",
    GpuFigure.TEMPERATURE_MEMORY_MAX: "Temperature of the memory at which the GPU slows itself down.",
    GpuFigure.POWER_LIMIT: "Power limit in force.",
    GpuFigure.SM_CLOCK: "Clock of the streaming multiprocessors.",
    GpuFigure.SM_CLOCK_MAX: "Highest clock of the streaming multiprocessors.",
    GpuFigure.MEMORY_CLOCK: "Clock of the GPU memory.",
    GpuFigure.MEMORY_CLOCK_MAX: "Highest clock of the GPU memory.",
    GpuFigure.CLOCK_EVENTS: (
        "1 for each event that keeps the clocks below their highest, 0 for the others; idle and software_power_cap are "
        "normal, hardware_slowdown, hardware_thermal and power_brake are not."
    ),
    GpuFigure.SM_ACTIVITY: f"Share of the streaming multiprocessors that were busy, {_ACTIVITY}.",
    GpuFigure.SM_OCCUPANCY: f"Resident warps over the most that fit, {_ACTIVITY}.",
    GpuFigure.TENSOR_ACTIVITY: f"Share of time in which the tensor cores worked, {_ACTIVITY}.",
    GpuFigure.DRAM_ACTIVITY: f"Share of the memory bandwidth in use, {_ACTIVITY}.",
    GpuFigure.ECC_VOLATILE_CORRECTED: f"Memory errors that ECC corrected, {_LOADED}.",
    GpuFigure.ECC_VOLATILE_UNCORRECTED: f"Memory errors that ECC could not correct, {_LOADED}.",
    GpuFigure.ECC_AGGREGATE_CORRECTED: f"Memory errors that ECC corrected, {_LIFE}.",
    GpuFigure.ECC_AGGREGATE_UNCORRECTED: f"Memory errors that ECC could not correct, {_LIFE}.",
    GpuFigure.REMAPPED_CORRECTABLE: f"Memory rows replaced because of correctable errors, {_LIFE}.",
    GpuFigure.REMAPPED_UNCORRECTABLE: f"Memory rows replaced because of uncorrectable errors, {_LIFE}.",
    GpuFigure.REMAP_PENDING: f"A memory row waits for a reset of the GPU to be replaced; {_FLAG}.",
    GpuFigure.REMAP_FAILURE: f"A memory row could not be replaced, which calls for another GPU; {_FLAG}.",
    GpuFigure.RECOVERY_ACTION: (
        "What the driver asks for: 0 nothing, 1 a reset, 2 a reboot, 3 draining peer-to-peer traffic, 4 draining and a "
        "reset."
    ),
    GpuFigure.PCIE_GENERATION: "PCIe generation of the link now; lower when idle.",
    GpuFigure.PCIE_GENERATION_MAX: "Highest PCIe generation that the GPU and its slot share.",
    GpuFigure.PCIE_WIDTH: "PCIe lanes of the link now.",
    GpuFigure.PCIE_WIDTH_MAX: "Most PCIe lanes that the GPU and its slot share.",
    GpuFigure.PCIE_REPLAYS: "PCIe packets sent again; starts afresh now and then.",
    GpuFigure.PCIE_TRANSMIT_RATE: f"Bytes per second from the GPU over PCIe, {_ACTIVITY.replace(', 0..1', '')}.",
    GpuFigure.PCIE_RECEIVE_RATE: f"Bytes per second to the GPU over PCIe, {_ACTIVITY.replace(', 0..1', '')}.",
    GpuFigure.NVLINKS: "NVLinks that are up.",
    GpuFigure.NVLINK_TRANSMITTED: "Bytes of data sent over all NVLinks.",
    GpuFigure.NVLINK_RECEIVED: "Bytes of data received over all NVLinks.",
    GpuFigure.NVLINK_CRC_ERRORS: "Checksum errors of all NVLinks (up to the fourth generation).",
    GpuFigure.NVLINK_REPLAY_ERRORS: "Replays of all NVLinks (up to the fourth generation).",
    GpuFigure.NVLINK_RECOVERIES: "Recoveries of all NVLinks.",
    GpuFigure.NVLINK_RECEIVE_ERRORS: "Packets with errors received over all NVLinks (from the fifth generation).",
    GpuFigure.PERSISTENCE_MODE: f"The driver keeps the GPU initialised when nobody uses it; {_FLAG}.",
    GpuFigure.MIG_MODE: f"The GPU is split into partitions (MIG); {_FLAG}.",
    GpuFigure.PROCESSES: "Processes that compute on the GPU and that exist on this host.",
}
INSTANCE_FIGURES = (
    GpuFigure.MEMORY_USED,
    GpuFigure.MEMORY_TOTAL,
    GpuFigure.SM_ACTIVITY,
    GpuFigure.SM_OCCUPANCY,
    GpuFigure.TENSOR_ACTIVITY,
    GpuFigure.DRAM_ACTIVITY,
)
"""The figures that are told for each partition; power, temperature and energy are known for the whole GPU alone."""


def family_name(figure: GpuFigure) -> str:
    """The family of a GPU's figure."""
    return f"tidegate_gpu_{figure}_total" if figure in COUNTERS else f"tidegate_gpu_{figure}"


def instance_family_name(figure: GpuFigure) -> str:
    """The family of a partition's figure."""
    return f"tidegate_gpu_instance_{figure}"


def _figure(figure: GpuFigure, text: str) -> Family:
    labels = (*GPU, "event") if figure is GpuFigure.CLOCK_EVENTS else GPU
    return (counter if figure in COUNTERS else gauge)(f"gpu_{figure}", text, *labels)


GPU_FAMILIES = (
    gauge("nvml_up", "1 when this host's GPUs can be read; 0 with the reason when not.", "reason"),
    gauge("gpu_driver_info", "1; the versions of the driver, of its library and of the newest CUDA that it serves.",
          "driver", "library", "cuda"),
    gauge("gpu_survey_timestamp_seconds", "When the GPUs were last asked."),
    gauge("gpu_driver_calls", "Calls into the driver that the last survey took; absent where they are not counted."),
    gauge("gpus", "GPUs that the driver lists, sick ones included; absent when it cannot be asked."),
    gauge("gpu_up", "1 when the GPU answers, 0 when the driver says that it is lost or sick.", *GPU),
    gauge("gpu_info", "1; what a GPU is and where: index (driver order, may change at a reboot), name, PCI bus, memory "
          "(device, or unified with the machine's).", *GPU, "index", "name", "bus_id", "memory_type"),
    *(_figure(figure, text) for figure, text in TEXTS.items()),
    gauge("gpu_figure_missing", "1 for each GPU figure that is not known, with why.", *GPU, "figure", "reason"),
    counter("gpu_xid_events", "Error events (XID) of the driver since the agent's start, by class: application, "
            "hardware (takes a reset or a reboot), other.", *GPU, "class"),
    gauge("gpu_xid_last_timestamp_seconds", "When each error event (XID) was last seen since the agent's start.",
          *GPU, "xid", "class"),
    gauge("gpu_instance_info", "1; a partition (MIG) of a GPU: one series for each of its compute instances.",
          *INSTANCE, "name", "mig_uuid"),
    *(gauge(f"gpu_instance_{figure}", f"Of one partition (MIG): {TEXTS[figure]}", *INSTANCE)
      for figure in INSTANCE_FIGURES),
)  # fmt: skip
"""Every family about GPUs, in the order of the documentation."""
