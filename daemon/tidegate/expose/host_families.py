"""The families about a host itself: one for each declared figure, with what it means in words."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.expose.family import Family, counter, gauge
from tidegate.model.machine import BY_DEVICE, COUNTERS, MachineFigure

_INTERFACES = "by an interface with hardware behind it (no loopback, no container's), since the host's start"

TEXTS: Mapping[MachineFigure, str] = {
    MachineFigure.NETWORK_RECEIVED: f"Bytes received {_INTERFACES}; RDMA is not among them.",
    MachineFigure.NETWORK_TRANSMITTED: f"Bytes sent {_INTERFACES}; RDMA is not among them.",
    MachineFigure.MEMORY: "Memory of the host.",
    MachineFigure.MEMORY_AVAILABLE: "Memory of the host that programs can still have.",
    MachineFigure.MODEL_STORE: "Size of the file system that the models lie on; absent without [agent] model_store.",
    MachineFigure.MODEL_STORE_FREE: "Room left on the file system that the models lie on.",
    MachineFigure.AGENT_MEMORY: "Resident memory of the agent, without its GPU reader.",
    MachineFigure.AGENT_CPU: "CPU time of the agent, user and system, without its GPU reader.",
    MachineFigure.AGENT_FILES: "Files and connections that the agent has open.",
}


def family_name(figure: MachineFigure) -> str:
    """The family of a host's figure."""
    return f"tidegate_{figure}_total" if figure in COUNTERS else f"tidegate_{figure}"


def _figure(figure: MachineFigure, text: str) -> Family:
    labels = ("device",) if figure in BY_DEVICE else ()
    return (counter if figure in COUNTERS else gauge)(str(figure), text, *labels)


HOST_FAMILIES = (
    gauge("host_info", "1; the kernel's name for the time since the last boot.", "boot_id"),
    *(_figure(figure, text) for figure, text in TEXTS.items()),
    gauge("host_figure_missing", "1 for each figure of the host that is not known, with why.", "figure", "reason"),
    gauge(
        "clock_offset_seconds",
        "How far the controller's clock is ahead of this host's: the least that explains its last answer, so 0 when "
        "they may agree.",
    ),
)
"""Every family about the host, in the order of the documentation."""
