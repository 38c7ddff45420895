"""The figures of one GPU that take a call each, and those that come as field values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.model.gpu import GpuFigure, MemoryType
from tidegate.model.missing import Gap, Missing, Number
from tidegate.observe.nvml.fields import Field, FieldValues, total
from tidegate.observe.nvml.library import UNSUPPORTED, Library, NVMLError, costly, missing, scaled

_MEMORY_V2 = 0x02000028
_SM, _MEMORY = 1, 2
"""Clock domains."""
_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX = 0, 1, 2
"""Temperature thresholds."""
_MEGA, _KIBI = 1e6, 1024.0
_THOUSANDTHS, _PERCENT = 1000.0, 100.0
_NEVER = Missing(Gap.NOT_SUPPORTED)

_ECC_ON = 1
_WHOLE: Mapping[GpuFigure, tuple[int, float]] = {
    GpuFigure.ENERGY: (83, _THOUSANDTHS),
    GpuFigure.MEMORY_TEMPERATURE: (82, 1.0),
    GpuFigure.POWER_LIMIT: (190, _THOUSANDTHS),
    GpuFigure.REMAPPED_CORRECTABLE: (142, 1.0),
    GpuFigure.REMAPPED_UNCORRECTABLE: (143, 1.0),
    GpuFigure.REMAP_PENDING: (144, 1.0),
    GpuFigure.REMAP_FAILURE: (145, 1.0),
    GpuFigure.RECOVERY_ACTION: (230, 1.0),
    GpuFigure.PCIE_REPLAYS: (94, 1.0),
}
"""Figures by field and divisor. Fields above 250 changed their numbers between drivers and are left alone; the PCIe
byte counters (197, 198) have 32 bits, which a busy link fills many times between two surveys."""
_ECC: Mapping[GpuFigure, int] = {
    GpuFigure.ECC_VOLATILE_CORRECTED: 3,
    GpuFigure.ECC_VOLATILE_UNCORRECTED: 4,
    GpuFigure.ECC_AGGREGATE_CORRECTED: 5,
    GpuFigure.ECC_AGGREGATE_UNCORRECTED: 6,
}
_POWER_AVERAGE, _POWER_INSTANT = 185, 186
_CRC, _REPLAY, _RECOVERY = (38, 45), (52,), (59,)
"""Of all links together, up to NVLink 4."""
_LINK_STATE, _LINK_SENT, _LINK_RECEIVED, _LINK_RECOVERIES, _LINK_BAD_PACKETS = 165, 138, 139, 215, 208
"""Of one link; the last two from NVLink 5 on."""
_WHOLE_FIELDS: Sequence[Field] = [
    (number, 0)
    for number in (
        *(number for number, _ in _WHOLE.values()),
        *_ECC.values(),
        _ECC_ON,
        _POWER_AVERAGE,
        _POWER_INSTANT,
        *_CRC,
        *_REPLAY,
        *_RECOVERY,
    )
]
_MOST_LINKS = 36
_LINK_FIELDS: Sequence[Field] = [
    (number, link)
    for link in range(_MOST_LINKS)
    for number in (_LINK_STATE, _LINK_SENT, _LINK_RECEIVED, _LINK_RECOVERIES, _LINK_BAD_PACKETS)
]
_UNIFIED_CHIPS = ("GB10", "Thor", "Orin")


class PlainFigures:
    """Reads one GPU. What it said it does not support is not asked for again before `forget`."""

    def __init__(self, library: Library, handle: Any, name: str) -> None:
        self._library, self._handle = library, handle
        self._may_be_unified = any(chip in name for chip in _UNIFIED_CHIPS)
        self._whole = FieldValues(library, handle, _WHOLE_FIELDS)
        self._links = FieldValues(library, handle, _LINK_FIELDS)
        self._never: set[tuple[object, ...]] = set()
        self._constants: dict[GpuFigure, Number] = {}

    def forget(self) -> None:
        """Ask for everything once more."""
        self._whole.forget()
        self._links.forget()
        self._never.clear()
        self._constants.clear()

    def read(self) -> tuple[dict[GpuFigure, Number], MemoryType]:
        """Every figure, and whose memory it has; raises NVMLError when the GPU or NVML itself is gone."""
        memory, kind = self._memory()
        if not self._constants:
            self._constants = self._read_constants()
        figures = {**self._rates(), **memory, **self._fields(), **self._sensors(), **self._constants}
        return figures, kind

    def _ask(self, *functions: str, arguments: tuple[Any, ...] = (), pick: Callable[[Any], float] = float) -> Number:
        """The answer of the first of these functions that the driver has for this GPU."""
        for function in functions:
            key = (function, *arguments)
            if key in self._never:
                continue
            value = self._library.figure(function, self._handle, *arguments, pick=pick)
            if value != _NEVER:
                return value
            self._never.add(key)
        return _NEVER

    def _rates(self) -> dict[GpuFigure, Number]:
        both: list[float] = []

        def pick(rates: Any) -> float:
            both.append(rates.memory / _PERCENT)
            return float(rates.gpu) / _PERCENT

        busy = self._ask("nvmlDeviceGetUtilizationRates", pick=pick)
        return {
            GpuFigure.UTILIZATION: busy,
            GpuFigure.MEMORY_BUSY: both[0] if both and not isinstance(busy, Missing) else busy,
        }

    def _sensors(self) -> dict[GpuFigure, Number]:
        ask = self._ask
        return {
            GpuFigure.TEMPERATURE: ask("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", arguments=(0,)),
            GpuFigure.TEMPERATURE_MARGIN: ask("nvmlDeviceGetMarginTemperature"),
            GpuFigure.SM_CLOCK: scaled(ask("nvmlDeviceGetClockInfo", arguments=(_SM,)), times=_MEGA),
            GpuFigure.MEMORY_CLOCK: scaled(ask("nvmlDeviceGetClockInfo", arguments=(_MEMORY,)), times=_MEGA),
            GpuFigure.CLOCK_EVENTS: ask(
                "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
            ),
            GpuFigure.PCIE_GENERATION: ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            GpuFigure.PCIE_WIDTH: ask("nvmlDeviceGetCurrPcieLinkWidth"),
            GpuFigure.PERSISTENCE_MODE: ask("nvmlDeviceGetPersistenceMode"),
            GpuFigure.MIG_MODE: ask("nvmlDeviceGetMigMode", pick=lambda modes: float(modes[0])),
        }

    def _read_constants(self) -> dict[GpuFigure, Number]:
        ask = self._ask
        return {
            GpuFigure.SM_CLOCK_MAX: scaled(ask("nvmlDeviceGetMaxClockInfo", arguments=(_SM,)), times=_MEGA),
            GpuFigure.MEMORY_CLOCK_MAX: scaled(ask("nvmlDeviceGetMaxClockInfo", arguments=(_MEMORY,)), times=_MEGA),
            GpuFigure.TEMPERATURE_SLOWDOWN: ask("nvmlDeviceGetTemperatureThreshold", arguments=(_SLOWDOWN,)),
            GpuFigure.TEMPERATURE_SHUTDOWN: ask("nvmlDeviceGetTemperatureThreshold", arguments=(_SHUTDOWN,)),
            GpuFigure.TEMPERATURE_MEMORY_MAX: ask("nvmlDeviceGetTemperatureThreshold", arguments=(_MEMORY_MAX,)),
            GpuFigure.PCIE_GENERATION_MAX: ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            GpuFigure.PCIE_WIDTH_MAX: ask("nvmlDeviceGetMaxPcieLinkWidth"),
        }

    def _fields(self) -> dict[GpuFigure, Number]:
        whole, links = self._whole.read(), self._links.read()
        figures = {name: scaled(whole.get((field, 0), _NEVER), over=by) for name, (field, by) in _WHOLE.items()}
        off = whole.get((_ECC_ON, 0)) == 0.0
        for name, field in _ECC.items():
            figures[name] = Missing(Gap.DISABLED) if off else whole.get((field, 0), _NEVER)
        figures.update(_link_figures(whole, links))
        average, instant = whole.get((_POWER_AVERAGE, 0), _NEVER), whole.get((_POWER_INSTANT, 0), _NEVER)
        figures[GpuFigure.POWER] = scaled(instant if isinstance(average, Missing) else average, over=_THOUSANDTHS)
        for name, function in _OLDER_CALLS.items():
            if figures[name] == _NEVER:
                figures[name] = scaled(self._ask(function), over=_THOUSANDTHS)
        return figures

    def _memory(self) -> tuple[dict[GpuFigure, Number], MemoryType]:
        """Used, total, reserved; a chip without memory of its own says so, or tells sizes that cannot be."""
        used, fitted, reserved = memory_sizes(self._library, self._handle)
        if isinstance(used, Missing) or isinstance(fitted, Missing):
            unified = self._may_be_unified and used == _NEVER
            gap = used if isinstance(used, Missing) else Missing(Gap.MALFORMED)
        elif 0 < fitted >= used:
            told = {GpuFigure.MEMORY_USED: used, GpuFigure.MEMORY_TOTAL: fitted, GpuFigure.MEMORY_RESERVED: reserved}
            return told, MemoryType.DEVICE
        else:
            unified = self._may_be_unified
            gap = _NEVER if unified else Missing(Gap.MALFORMED)
        names = (GpuFigure.MEMORY_USED, GpuFigure.MEMORY_TOTAL, GpuFigure.MEMORY_RESERVED)
        return dict.fromkeys(names, gap), MemoryType.UNIFIED if unified else MemoryType.UNKNOWN


def memory_sizes(library: Library, handle: Any) -> tuple[Number, Number, Number]:
    """Used, total and reserved bytes of a GPU or a partition; raises NVMLError when the GPU or NVML itself is gone.

    Before version 2 of the call, used contains what the driver reserves for itself.
    """
    try:
        memory = library("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
        return float(memory.used), float(memory.total), float(memory.reserved)
    except NVMLError as error:
        if costly(error):
            raise
        if error.value not in UNSUPPORTED:
            gap = missing(error.value)
            return gap, gap, gap
    try:
        memory = library("nvmlDeviceGetMemoryInfo", handle)
    except NVMLError as error:
        if costly(error):
            raise
        gap = missing(error.value)
        return gap, gap, gap
    return float(memory.used), float(memory.total), _NEVER


_OLDER_CALLS = {
    GpuFigure.POWER: "nvmlDeviceGetPowerUsage",
    GpuFigure.ENERGY: "nvmlDeviceGetTotalEnergyConsumption",
    GpuFigure.POWER_LIMIT: "nvmlDeviceGetEnforcedPowerLimit",
}
"""For drivers from before the field; all in thousandths."""


def _link_figures(whole: Mapping[Field, Number], links: Mapping[Field, Number]) -> dict[GpuFigure, Number]:
    """Sums over the links that there are; NVLink 5 counts its errors by link, what came before by GPU."""
    recoveries = total(whole, _RECOVERY)
    return {
        GpuFigure.NVLINKS: _up(links),
        GpuFigure.NVLINK_TRANSMITTED: scaled(total(links, (_LINK_SENT,)), times=_KIBI),
        GpuFigure.NVLINK_RECEIVED: scaled(total(links, (_LINK_RECEIVED,)), times=_KIBI),
        GpuFigure.NVLINK_CRC_ERRORS: total(whole, _CRC),
        GpuFigure.NVLINK_REPLAY_ERRORS: total(whole, _REPLAY),
        GpuFigure.NVLINK_RECOVERIES: total(links, (_LINK_RECOVERIES,)) if recoveries == _NEVER else recoveries,
        GpuFigure.NVLINK_RECEIVE_ERRORS: total(links, (_LINK_BAD_PACKETS,)),
    }


def _up(links: Mapping[Field, Number]) -> Number:
    """How many links are active or asleep (1 or 2) rather than inactive (0)."""
    states = {field: min(1.0, value) for field, value in links.items() if not isinstance(value, Missing)}
    return total({**links, **states}, (_LINK_STATE,))
