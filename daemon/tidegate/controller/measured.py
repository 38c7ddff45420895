"""The recent past as a Prometheus has it: asked for beside the tick, so that a slow one delays no decision.

Each poll asks for the whole view window and takes the place of the one before: what came late is in the next. While
nothing comes the last readings grow old, and what is old is missing: never idle, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from tidegate.controller.head import AHEAD
from tidegate.controller.source_ports import Samples, Words
from tidegate.model.missing import Gap
from tidegate.model.reading import HostName, HostReading
from tidegate.model.scrape import SampleSeries, Scraped, SourceState
from tidegate.runtime.errors import TidegateError

_log = structlog.get_logger()

REMEMBERED = "1h"
"""A target that was an agent within this time and answers no more is down; one that is gone for longer is forgotten."""
_LATE = timedelta(seconds=60)
"""Samples may come so much later than they were taken (remote write)."""
_BEHIND_SECONDS, _AHEAD_SECONDS = -5.0, 120.0
"""Stamps of samples beyond these are those of a clock that is off: a page is at most as old as the agent's interval."""


@dataclass(frozen=True, slots=True)
class _Seen:
    readings: Mapping[HostName, Sequence[HostReading]] = field(default_factory=dict)
    silent: Mapping[HostName, Gap] = field(default_factory=dict)
    state: SourceState = field(default_factory=SourceState)


class Measured:
    """Implements the port `Recent` over a Prometheus; safe to use from any thread."""

    def __init__(
        self, samples: Samples, words: Words, window: Callable[[], timedelta], offsets: Mapping[HostName, float]
    ) -> None:
        """`window` is how much of the past a tick looks at; `offsets` by how many seconds a host's clock is ahead."""
        self._samples, self._words, self._window, self._offsets = samples, words, window, offsets
        self._seen = _Seen()
        self._away = ""

    def poll(self, now: datetime) -> None:
        """Ask again; raises Transient or Permanent, and then what was known before stays and grows old."""
        try:
            self._seen = self._look(now)
        except TidegateError as error:
            self._away = f"no samples from Prometheus: {error}; figures grow stale, and nothing is scaled in by them"
            raise
        self._away = ""

    def since(self, since: datetime, until: datetime) -> Mapping[HostName, Sequence[HostReading]]:
        """Every host's readings with since < at <= until, oldest first; hosts without one are left out."""
        found = {
            host: [reading for reading in readings if since < reading.at <= until]
            for host, readings in self._seen.readings.items()
        }
        return {host: readings for host, readings in found.items() if readings}

    def silent(self) -> Mapping[HostName, Gap]:
        """Why there are no new readings, when there are none: what Prometheus says of a host, or that it is old."""
        return {**dict.fromkeys(self._seen.readings, Gap.STALE), **self._seen.silent}

    def state(self) -> SourceState:
        """How the source does; the notes begin with why it does not answer."""
        state = self._seen.state
        return replace(state, hosts=None, notes=(self._away, *state.notes)) if self._away else state

    def _look(self, now: datetime) -> _Seen:
        found: list[SampleSeries] = []
        span = self._window() + _LATE + AHEAD  # their clock may be ahead of ours, or behind
        for selector in self._words.tick():
            found += self._samples.raw(selector, now + AHEAD, span).series
        scraped = self._words.read(found)
        agents, up = (self._samples.instant(one, now).series for one in self._words.targets(REMEMBERED))
        readings = {host: self._by_our_clock(host, looks) for host, looks in scraped.readings.items()}
        silent = self._words.silent(agents, up)
        return _Seen(readings, silent, SourceState(len(readings), scraped.dropped, notes_of(scraped, silent)))

    def _by_our_clock(self, host: HostName, readings: Sequence[HostReading]) -> Sequence[HostReading]:
        """The readings at our own time: what a host's clock is off by is known from its messages."""
        offset = timedelta(seconds=self._offsets.get(host, 0.0))
        if not offset:
            return readings
        return [
            replace(
                reading,
                at=reading.at - offset,
                engines=tuple(replace(engine, at=engine.at - offset) for engine in reading.engines),
            )
            for reading in readings
        ]


def notes_of(scraped: Scraped, silent: Mapping[HostName, Gap]) -> tuple[str, ...]:
    """What people should know of an answer, in words (`expose/chinese.py` has the Chinese)."""
    notes = [f"Prometheus cannot scrape host {host}: its target is down" for host in sorted(silent)]
    notes += [
        f"target {target} exports Tidegate's metrics and does not say which host it is; upgrade its agent, or set "
        "host_label in [prometheus]"
        for target in scraped.nameless
    ]
    notes += [
        f"{number} samples of the last answer became no figure: {_REASONS.get(reason, reason)}"
        for reason, number in sorted(scraped.dropped.items())
    ]
    if not scraped.readings and not silent:
        notes.append(
            "Prometheus has no samples of any agent: does it scrape them, is it the right tenant, do the matchers fit?"
        )
    ahead = scraped.ahead_seconds
    if ahead is not None and not _BEHIND_SECONDS <= ahead <= _AHEAD_SECONDS:
        way = "ahead of" if ahead > 0 else "behind"
        notes.append(f"Prometheus' clock is about {abs(ahead):.0f} s {way} the agents', or its samples come late")
    return tuple(notes)


_REASONS = {
    "not_finite": "they are no finite numbers",
    "conflicting": "series that should be one contradict each other (does relabelling drop a label?)",
    "malformed": "a bucket's bound is no number",
}
