"""Read a host's own figures from /proc, /sys and its file systems; what cannot be read is missing."""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from tidegate.model.machine import Machine, MachineFigure
from tidegate.model.missing import Gap, Missing, Number

_Figures = dict[tuple[MachineFigure, str], Number]

_DISK_FIGURES = ((MachineFigure.MODEL_STORE, ""), (MachineFigure.MODEL_STORE_FREE, ""))
_DISK_SECONDS = 0.5
_LONGEST_DEVICE = 64
_VIRTUAL = (
    "lo", "veth", "docker", "br-", "virbr", "cni", "flannel", "cali", "cilium", "lxc", "tun", "tap", "dummy", "ifb",
    "kube", "nodelocal", "vnet", "wg", "vxlan", "geneve", "bond", "team", "sit", "gre", "ip6",
)  # fmt: skip
"""How the names of interfaces begin that carry nobody's traffic or somebody else's once more."""


class HostFigures:
    """Reads the host. A model store on a file system of another machine that hangs holds up nothing; `close` it."""

    def __init__(self, model_store: Path | None, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._model_store, self._proc, self._sys = model_store, proc, sys
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="model store")
        self._look: Future[_Figures] | None = None

    def read(self) -> Machine:
        """Everything at once; never raises."""
        figures = {**self._network(), **self._memory(), **self._agent()}
        if self._model_store is not None:
            figures.update(self._disk(self._model_store))
        boot_id = _text(self._proc / "sys/kernel/random/boot_id")
        return Machine(figures, boot_id.strip()[:_LONGEST_DEVICE] if isinstance(boot_id, str) else "")

    def close(self) -> None:
        """Let go of a look at the model store that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _disk(self, folder: Path) -> _Figures:
        """One look at a time: a hanging one is waited for, not joined by others."""
        if self._look is None or self._look.done():
            self._look = self._pool.submit(disk_bytes, folder)
        wait([self._look], _DISK_SECONDS)
        if not self._look.done():
            return dict.fromkeys(_DISK_FIGURES, Missing(Gap.UNREACHABLE))
        return self._look.result()

    def _network(self) -> _Figures:
        table = _text(self._proc / "net/dev")
        if isinstance(table, Missing):
            return {(MachineFigure.NETWORK_RECEIVED, ""): table, (MachineFigure.NETWORK_TRANSMITTED, ""): table}
        counted = network_bytes(table)
        figures: _Figures = {}
        for device in physical(counted, self._with_hardware(counted)):
            received, transmitted = counted[device]
            figures[MachineFigure.NETWORK_RECEIVED, device] = received
            figures[MachineFigure.NETWORK_TRANSMITTED, device] = transmitted
        return figures

    def _with_hardware(self, devices: Collection[str]) -> set[str]:
        """Interfaces with a device of their own behind them, less the virtual functions of a card."""
        links = {device: self._sys / "class/net" / device / "device" for device in devices}
        return {device for device, link in links.items() if link.exists() and not (link / "physfn").exists()}

    def _memory(self) -> _Figures:
        table = _text(self._proc / "meminfo")
        sizes = {} if isinstance(table, Missing) else memory_bytes(table)
        gap = table if isinstance(table, Missing) else Missing(Gap.NOT_REPORTED)
        return {
            (MachineFigure.MEMORY, ""): sizes.get("MemTotal", gap),
            (MachineFigure.MEMORY_AVAILABLE, ""): sizes.get("MemAvailable", gap),
        }

    def _agent(self) -> _Figures:
        text = _text(self._proc / "self/stat")
        cpu, resident = (text, text) if isinstance(text, Missing) else process_figures(text)
        return {
            (MachineFigure.AGENT_MEMORY, ""): resident,
            (MachineFigure.AGENT_CPU, ""): cpu,
            (MachineFigure.AGENT_FILES, ""): _entries(self._proc / "self/fd"),
        }


def network_bytes(table: str) -> dict[str, tuple[float, float]]:
    """Bytes received and transmitted by interface, from the text of /proc/net/dev; other lines are passed over."""
    found = {}
    for line in table.splitlines():
        device, colon, rest = line.partition(":")
        numbers = rest.split()
        name = device.strip()
        if colon and len(numbers) >= 9 and numbers[0].isdecimal() and numbers[8].isdecimal() and _fits(name):
            found[name] = (float(numbers[0]), float(numbers[8]))
    return found


def _fits(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_DEVICE and name.isprintable()


def physical(devices: Collection[str], with_hardware: Collection[str]) -> list[str]:
    """The interfaces whose traffic leaves the machine, each byte once.

    Those with hardware behind them: bonds, bridges and VLANs repeat what these carry. In a container none has any;
    there everything counts that is not virtual by its name.
    """
    if with_hardware:
        return sorted(set(devices) & set(with_hardware))
    return sorted(device for device in devices if not device.startswith(_VIRTUAL) and "." not in device)


def memory_bytes(table: str) -> dict[str, float]:
    """The sizes in /proc/meminfo, in bytes."""
    found = {}
    for line in table.splitlines():
        name, _, rest = line.partition(":")
        parts = rest.split()
        if len(parts) == 2 and parts[1] == "kB" and parts[0].isdecimal():
            found[name] = float(parts[0]) * 1024
    return found


def process_figures(stat: str) -> tuple[Number, Number]:
    """CPU seconds (user and system) and resident bytes of a process, from its /proc/PID/stat.

    Source: proc(5); the second field, the name in brackets, may itself contain brackets and blanks.
    """
    fields = stat.rpartition(")")[2].split()
    numbers = [fields[place] for place in (11, 12, 21)] if len(fields) > 21 else []
    if not numbers or not all(number.isdecimal() for number in numbers):
        return Missing(Gap.MALFORMED), Missing(Gap.MALFORMED)
    user, system, pages = map(float, numbers)
    return (user + system) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(folder: Path) -> _Figures:
    """Size of the folder's file system, and the room that programs without special rights can have."""
    try:
        told = os.statvfs(folder)
    except OSError as error:
        return dict.fromkeys(_DISK_FIGURES, _gap(error))
    return {
        (MachineFigure.MODEL_STORE, ""): float(told.f_blocks * told.f_frsize),
        (MachineFigure.MODEL_STORE_FREE, ""): float(told.f_bavail * told.f_frsize),
    }


def _text(path: Path) -> str | Missing:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return _gap(error)


def _entries(folder: Path) -> Number:
    try:
        return float(sum(1 for _ in folder.iterdir()) - 1)  # less the one that lists them
    except OSError as error:
        return _gap(error)


def _gap(error: OSError) -> Missing:
    return Missing(Gap.UNAUTHORIZED if isinstance(error, PermissionError) else Gap.UNREACHABLE)
