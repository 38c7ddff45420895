"""The controller as agents see it: whose token it is, what they report, what they should run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.controller.heard import Listener, Told
from tidegate.controller.intake import Intake
from tidegate.controller.tokens import Tokens
from tidegate.controller.wishes import Wishes
from tidegate.model.reading import HostName
from tidegate.runtime.clock import Clock
from tidegate.wire import Answer, Arrival, Desired


@dataclass(frozen=True, slots=True)
class Agents:
    """Implements `link.agent_api.AgentApi`; every call may block on the database."""

    clock: Clock
    tokens: Tokens
    intake: Intake
    wishes: Wishes
    listener: Listener

    def host_of(self, token_hash: str) -> HostName | None:
        """Whose host token this is."""
        return self.tokens.authenticate(token_hash)

    def trusted_host(self, token_hash: str) -> HostName | None:
        """Whose host token this is, where that is certain without asking: never blocks."""
        return self.tokens.trusted(token_hash)

    def refused(self, fate: str) -> None:
        """Count a report that was refused."""
        self.listener.hear(Told(fates={fate: 1}))

    def take(self, arrivals: Sequence[Arrival]) -> Sequence[Answer | Exception]:
        """Store batches of many hosts together: an answer for each, or what it failed by."""
        return self.intake.take_all(arrivals, self.clock)

    def known_desired(self, host: HostName) -> Desired | None:
        """The same as `desired`, where it is certain without asking: never blocks."""
        return self.wishes.known(host)

    def desired(self, host: HostName) -> Desired:
        """Everything that the host should run now."""
        return self.wishes.desired(host)

    def now(self) -> datetime:
        """The controller's time."""
        return self.clock.now()
