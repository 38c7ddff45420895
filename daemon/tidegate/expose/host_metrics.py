"""A host's own figures as metric families: a loop over the declaration."""

from __future__ import annotations

from tidegate.expose.exposition import Exposition
from tidegate.expose.host_families import family_name
from tidegate.model.machine import BY_DEVICE, Machine
from tidegate.model.missing import Missing


def add_machine(out: Exposition, machine: Machine) -> None:
    """Add everything that is known of the host, and what is not."""
    if machine.boot_id:
        out.add("tidegate_host_info", {"boot_id": machine.boot_id}, 1.0)
    for (figure, device), value in machine.figures.items():
        if isinstance(value, Missing):
            out.add("tidegate_host_figure_missing", {"figure": figure.value, "reason": value.why.value}, 1.0)
        else:
            out.add(family_name(figure), {"device": device} if figure in BY_DEVICE else {}, value)
