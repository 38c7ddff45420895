"""What one look at a host's GPUs says: the declared figures, partitions, processes and the driver's error events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from tidegate.model.missing import Gap, Missing, Number

GpuUuid = NewType("GpuUuid", str)

_NOT_REPORTED = Missing(Gap.NOT_REPORTED)


class GpuFigure(StrEnum):
    """Every figure of a GPU, as a series name on the wire; the exposition calls it `tidegate_gpu_NAME`.

    Shares are 0..1, the unit of the others stands at the end of the name; flags are 0 or 1. What each means in words:
    `expose/gpu_families.py`. `COUNTERS` grow until the driver, or the GPU, starts afresh.
    """

    UTILIZATION = "utilization"
    MEMORY_USED = "memory_used_bytes"
    MEMORY_TOTAL = "memory_total_bytes"
    MEMORY_RESERVED = "memory_reserved_bytes"
    POWER = "power_watts"
    ENERGY = "energy_joules"
    TEMPERATURE = "temperature_celsius"
    MEMORY_BUSY = "memory_busy"
    MEMORY_TEMPERATURE = "memory_temperature_celsius"
    TEMPERATURE_MARGIN = "temperature_margin_celsius"
    TEMPERATURE_SLOWDOWN = "temperature_slowdown_celsius"
    TEMPERATURE_SHUTDOWN = "temperature_shutdown_celsius"
    TEMPERATURE_MEMORY_MAX = "temperature_memory_max_celsius"
    POWER_LIMIT = "power_limit_watts"
    SM_CLOCK = "sm_clock_hertz"
    SM_CLOCK_MAX = "sm_clock_max_hertz"
    MEMORY_CLOCK = "memory_clock_hertz"
    MEMORY_CLOCK_MAX = "memory_clock_max_hertz"
    CLOCK_EVENTS = "clock_events"
    """A sum of `ClockEvent` bits; exported as one series for each of them."""
    SM_ACTIVITY = "sm_activity"
    SM_OCCUPANCY = "sm_occupancy"
    TENSOR_ACTIVITY = "tensor_activity"
    DRAM_ACTIVITY = "dram_activity"
    ECC_VOLATILE_CORRECTED = "ecc_volatile_corrected_errors"
    ECC_VOLATILE_UNCORRECTED = "ecc_volatile_uncorrected_errors"
    ECC_AGGREGATE_CORRECTED = "ecc_aggregate_corrected_errors"
    ECC_AGGREGATE_UNCORRECTED = "ecc_aggregate_uncorrected_errors"
    REMAPPED_CORRECTABLE = "remapped_rows_correctable"
    REMAPPED_UNCORRECTABLE = "remapped_rows_uncorrectable"
    REMAP_PENDING = "row_remap_pending"
    REMAP_FAILURE = "row_remap_failure"
    RECOVERY_ACTION = "recovery_action"
    PCIE_GENERATION = "pcie_generation"
    PCIE_GENERATION_MAX = "pcie_generation_max"
    PCIE_WIDTH = "pcie_width"
    PCIE_WIDTH_MAX = "pcie_width_max"
    PCIE_REPLAYS = "pcie_replays"
    PCIE_TRANSMIT_RATE = "pcie_transmit_bytes_per_second"
    PCIE_RECEIVE_RATE = "pcie_receive_bytes_per_second"
    NVLINKS = "nvlinks"
    NVLINK_TRANSMITTED = "nvlink_transmitted_bytes"
    NVLINK_RECEIVED = "nvlink_received_bytes"
    NVLINK_CRC_ERRORS = "nvlink_crc_errors"
    NVLINK_REPLAY_ERRORS = "nvlink_replay_errors"
    NVLINK_RECOVERIES = "nvlink_recoveries"
    NVLINK_RECEIVE_ERRORS = "nvlink_receive_errors"
    PERSISTENCE_MODE = "persistence_mode"
    MIG_MODE = "mig_mode"
    PROCESSES = "processes"


COUNTERS = frozenset(
    {
        GpuFigure.ENERGY,
        GpuFigure.ECC_VOLATILE_CORRECTED,
        GpuFigure.ECC_VOLATILE_UNCORRECTED,
        GpuFigure.ECC_AGGREGATE_CORRECTED,
        GpuFigure.ECC_AGGREGATE_UNCORRECTED,
        GpuFigure.PCIE_REPLAYS,
        GpuFigure.NVLINK_TRANSMITTED,
        GpuFigure.NVLINK_RECEIVED,
        GpuFigure.NVLINK_CRC_ERRORS,
        GpuFigure.NVLINK_REPLAY_ERRORS,
        GpuFigure.NVLINK_RECOVERIES,
        GpuFigure.NVLINK_RECEIVE_ERRORS,
    }
)
SHARES = frozenset(
    {
        GpuFigure.UTILIZATION,
        GpuFigure.MEMORY_BUSY,
        GpuFigure.SM_ACTIVITY,
        GpuFigure.SM_OCCUPANCY,
        GpuFigure.TENSOR_ACTIVITY,
        GpuFigure.DRAM_ACTIVITY,
    }
)
"""Figures of 0..1."""
SIGNED = frozenset({GpuFigure.TEMPERATURE_MARGIN})
"""Figures that may be below zero."""
BASIC_FIGURES = tuple(GpuFigure)[:7]
"""What every reader is expected to tell: one that is absent from its answer is listed as missing."""


class ClockEvent(StrEnum):
    """Why a GPU runs below its highest clock, by the bits of NVML's clock-event (earlier: throttle) reasons."""

    IDLE = "idle"
    APPLICATION_CLOCKS = "application_clocks"
    SOFTWARE_POWER_CAP = "software_power_cap"
    HARDWARE_SLOWDOWN = "hardware_slowdown"
    SYNC_BOOST = "sync_boost"
    SOFTWARE_THERMAL = "software_thermal"
    HARDWARE_THERMAL = "hardware_thermal"
    POWER_BRAKE = "power_brake"
    DISPLAY_CLOCKS = "display_clocks"
    BOARD_LIMIT = "board_limit"
    RELIABILITY = "reliability"
    OTHER = "other"
    """Any bit that this program does not know."""


def clock_events(bits: float) -> frozenset[ClockEvent]:
    """The events in a sum of bits: bit n is the n-th member, every higher one `OTHER`."""
    known = len(ClockEvent) - 1
    whole = int(bits)
    events = {event for position, event in enumerate(ClockEvent) if position < known and whole >> position & 1}
    return frozenset(events | {ClockEvent.OTHER} if whole >> known else events)


class MemoryType(StrEnum):
    """Whose memory a GPU works in."""

    DEVICE = "device"
    UNIFIED = "unified"
    """The machine's own, as on GB10, Thor and Orin: the driver tells neither use nor size."""
    UNKNOWN = "unknown"


class XidClass(StrEnum):
    """What kind of trouble an XID event is."""

    APPLICATION = "application"
    HARDWARE = "hardware"
    OTHER = "other"


_APPLICATION_XIDS = frozenset({13, 31, 43, 45})
_HARDWARE_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120})


def xid_class(code: int) -> XidClass:
    """The class of an XID: the fault of a program, or one that takes a reset or a reboot to get over."""
    if code in _APPLICATION_XIDS:
        return XidClass.APPLICATION
    return XidClass.HARDWARE if code in _HARDWARE_XIDS else XidClass.OTHER


@dataclass(frozen=True, slots=True)
class XidEvents:
    """How often an XID was seen since the agent's start, and when last. What came before is not known to anybody."""

    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int
    used_bytes: Number
    gpu_instance: int | None = None
    """The partition that it runs in; None where the GPU is not partitioned."""


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """One partition (MIG GPU instance). Its compute instances share its memory, so the figures are per partition.

    The number is used again after a reconfiguration: it names a place on the GPU, not a thing.
    """

    number: int
    name: str = ""
    uuids: tuple[str, ...] = ()
    """One for each compute instance, as CUDA_VISIBLE_DEVICES takes them."""
    figures: Mapping[GpuFigure, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment: a figure that its reader knows nothing of is absent from `figures`."""

    uuid: GpuUuid
    index: int
    name: str
    up: bool
    why: str = ""
    """Why the GPU is not up, as the driver says it; empty when it is."""
    figures: Mapping[GpuFigure, Number] = field(default_factory=dict)
    bus_id: str = ""
    memory_type: MemoryType = MemoryType.UNKNOWN
    instances: tuple[GpuInstance, ...] = ()
    processes: tuple[GpuProcess, ...] | Missing = _NOT_REPORTED
    xids: Mapping[int, XidEvents] = field(default_factory=dict)
    """By code."""

    def figure(self, name: GpuFigure) -> Number:
        """The figure, or why there is none."""
        return self.figures.get(name, _NOT_REPORTED)

    @property
    def utilization(self) -> Number:
        """Share of the driver's sample period with a kernel resident."""
        return self.figure(GpuFigure.UTILIZATION)

    @property
    def memory_used_bytes(self) -> Number:
        """Memory in use, without what the driver reserves where it tells them apart."""
        return self.figure(GpuFigure.MEMORY_USED)

    @property
    def memory_total_bytes(self) -> Number:
        """Memory fitted."""
        return self.figure(GpuFigure.MEMORY_TOTAL)

    @property
    def memory_reserved_bytes(self) -> Number:
        """Memory that the driver keeps for itself."""
        return self.figure(GpuFigure.MEMORY_RESERVED)

    @property
    def power_watts(self) -> Number:
        """Power drawn."""
        return self.figure(GpuFigure.POWER)

    @property
    def energy_joules(self) -> Number:
        """Energy used since the driver was loaded."""
        return self.figure(GpuFigure.ENERGY)

    @property
    def temperature_celsius(self) -> Number:
        """Temperature of the die."""
        return self.figure(GpuFigure.TEMPERATURE)


class GpuFault(StrEnum):
    """Why the GPUs of a host cannot be read: the `reason` label of `tidegate_nvml_up`."""

    DISABLED = "disabled"
    """No GPU reader is configured."""
    STARTING = "starting"
    NO_LIBRARY = "no_library"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    NO_PERMISSION = "no_permission"
    HANGING = "hanging"
    READER_DIED = "reader_died"
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """All GPUs of a host, or why they cannot be read."""

    up: bool
    why: str
    at: datetime
    """When the reading was made; an old survey is served with its age, never as live."""
    driver: str = ""
    gpus: tuple[GpuReading, ...] = ()
    source: str = "nvml"
    fault: GpuFault | None = None
    """`why` in one word of a closed set; None when the survey is up, or when nobody classified it."""
    library: str = ""
    """The version of the driver's library (NVML), where there is one."""
    cuda: str = ""
    """The newest CUDA version that the driver serves."""
    calls: int = 0
    """How many calls into the driver the survey took; 0 where its reader does not count them."""
