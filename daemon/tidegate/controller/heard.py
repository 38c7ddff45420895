"""What hosts have said, as it is told on by those who answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from tidegate.model.reading import HostName


@dataclass(frozen=True, slots=True)
class Look:
    """A report of the recent past: what a spool brings after hours is for the store alone."""

    boot_id: str
    at: datetime
    layout: str
    values: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """What came with one batch."""

    host: HostName
    at: datetime
    """When it was received."""
    looks: Sequence[Look] = ()
    state: bytes | None = None
    """The host's live state as JSON (`wire.HostState`)."""
    offset: timedelta | None = None
    """How far ahead the host's clock is; None while nothing of it could be stored."""


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell at one time."""

    heard: Sequence[Heard] = ()
    fates: Mapping[str, int] = field(default_factory=dict)
    """How many reports (or refused requests) there were, by what became of them."""


class Listener(Protocol):
    """Who is told, from any thread."""

    def hear(self, told: Told) -> None:
        """Take note of it."""
        ...
