"""What agents need of a controller: plain values in and out; no HTTP in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tidegate.model.reading import HostName
from tidegate.wire import Answer, Arrival, Desired


class AgentApi(Protocol):
    """The controller as agents see it. Calls may block (database) and may raise Transient or Permanent."""

    def host_of(self, token_hash: str) -> HostName | None:
        """Whose host token this is."""
        ...

    def trusted_host(self, token_hash: str) -> HostName | None:
        """Whose host token this is, where that is certain at once; never blocks."""
        ...

    def refused(self, fate: str) -> None:
        """Count a report that was refused: malformed, unauthorized, too_large or failed."""
        ...

    def take(self, arrivals: Sequence[Arrival]) -> Sequence[Answer | Exception]:
        """Store batches of many hosts together: an answer for each, or what it failed by.

        ValueError (nothing of the batch is stored): a vector does not fit its layout.
        """
        ...

    def known_desired(self, host: HostName) -> Desired | None:
        """The same as `desired`, where it is certain at once; never blocks."""
        ...

    def desired(self, host: HostName) -> Desired:
        """Everything that the host should run now."""
        ...

    def now(self) -> datetime:
        """The controller's time."""
        ...
