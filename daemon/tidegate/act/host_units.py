"""All units of a host as one `Units`: each replica goes to the kind that its template names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate.model.target import UnitStatus
from tidegate.runtime.errors import Permanent
from tidegate.wire import DesiredReplica


class UnitKind(Protocol):
    """One way to run units."""

    def knows(self, template: str) -> bool:
        """True when units of this template are of this kind."""
        ...

    def start(self, replica: DesiredReplica) -> None:
        """Start the replica's unit."""
        ...

    def stop(self, replica_id: str, slot: int, template: str) -> None:
        """Ask the replica's unit to stop; nothing when it has none of this kind."""
        ...

    def statuses(self) -> Sequence[UnitStatus]:
        """Every unit of this kind."""
        ...


class HostUnits:
    """The units of every kind."""

    def __init__(self, kinds: Sequence[UnitKind]) -> None:
        self._kinds = kinds

    def start(self, replica: DesiredReplica) -> None:
        """Start by the replica's template; raises Permanent when the host has no such template."""
        for kind in self._kinds:
            if kind.knows(replica.template):
                kind.start(replica)
                return
        raise Permanent(
            f"this host has no [[template]] named {replica.template!r}; add it to the agent's configuration and reload"
        )

    def stop(self, replica_id: str, slot: int, template: str) -> None:
        """Stop wherever the replica runs: its template may have left the configuration since."""
        for kind in self._kinds:
            kind.stop(replica_id, slot, template)

    def statuses(self) -> Sequence[UnitStatus]:
        """Every unit that we started."""
        return [status for kind in self._kinds for status in kind.statuses()]
