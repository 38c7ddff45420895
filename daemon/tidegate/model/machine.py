"""What a host says of itself beside its GPUs and engines: network, memory, the disk of the models, the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.model.missing import Gap, Missing, Number


class MachineFigure(StrEnum):
    """Every figure of a host, as a series name on the wire; the exposition calls it `tidegate_NAME`."""

    NETWORK_RECEIVED = "network_received_bytes"
    NETWORK_TRANSMITTED = "network_transmitted_bytes"
    MEMORY = "host_memory_bytes"
    MEMORY_AVAILABLE = "host_memory_available_bytes"
    MODEL_STORE = "model_store_bytes"
    MODEL_STORE_FREE = "model_store_free_bytes"
    AGENT_MEMORY = "agent_resident_bytes"
    AGENT_CPU = "agent_cpu_seconds"
    AGENT_FILES = "agent_open_files"


COUNTERS = frozenset({MachineFigure.NETWORK_RECEIVED, MachineFigure.NETWORK_TRANSMITTED, MachineFigure.AGENT_CPU})
"""Those that grow until the host, or the agent, starts afresh."""
BY_DEVICE = frozenset({MachineFigure.NETWORK_RECEIVED, MachineFigure.NETWORK_TRANSMITTED})
"""Those that each network interface has."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One host at one moment. A figure that nobody asked for (no model store is configured) is absent."""

    figures: Mapping[tuple[MachineFigure, str], Number] = field(default_factory=dict)
    """By figure and device; the device is empty where the figure is of the whole host."""
    boot_id: str = ""
    """The kernel's name for the time since the last boot; empty when it does not say."""

    def figure(self, name: MachineFigure, device: str = "") -> Number:
        """The figure, or why there is none."""
        return self.figures.get((name, device), Missing(Gap.NOT_REPORTED))
