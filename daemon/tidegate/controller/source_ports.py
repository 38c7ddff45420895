"""What the second source of metrics needs of the world: somebody to ask, and the words to ask in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from tidegate.model.history import Label, Metric
from tidegate.model.missing import Gap
from tidegate.model.reading import HostName, HostReading
from tidegate.model.scrape import Found, Labels, SampleSeries, Scraped


class Samples(Protocol):
    """A server of samples. Every call raises Transient or Permanent, in bounded time."""

    def raw(self, selector: str, at: datetime, span: timedelta) -> Found:
        """The samples of the last `span` before `at`, as they were scraped; all of them, or Transient."""
        ...

    def instant(self, expression: str, at: datetime) -> Found:
        """The value of an expression at one moment; whole, or Transient."""
        ...

    def steps(self, expression: str, first: datetime, last: datetime, step: timedelta) -> Found:
        """The values of an expression at whole seconds from `first` to `last`."""
        ...

    def labels(self, selector: str, since: datetime, until: datetime) -> Sequence[Labels]:
        """The labels of the series that have samples between the two moments."""
        ...


class Words(Protocol):
    """The vocabulary of the agents' pages, forwards and backwards."""

    def tick(self) -> tuple[str, ...]:
        """The selectors that a tick rests on; the first has what the others belong to."""
        ...

    def usage(self) -> str:
        """The selector that token usage is made of."""
        ...

    def earliest(self, span: str) -> str:
        """An expression for when the first sample of an agent within `span` was taken, in unix seconds."""
        ...

    def targets(self, span: str) -> tuple[str, str]:
        """Two expressions: which targets were agents within the span (such as 1h), and which of them answer."""
        ...

    def read(self, found: Iterable[SampleSeries]) -> Scraped:
        """The readings that samples were."""
        ...

    def silent(self, agents: Iterable[SampleSeries], up: Iterable[SampleSeries]) -> Mapping[HostName, Gap]:
        """The hosts of which no target answered its last scrape, and why nothing is known of them."""
        ...


class PastWords(Protocol):
    """The language in which a Prometheus is asked for the past of one metric."""

    def agents(self) -> str:
        """The selector of the series that say which host a target is."""
        ...

    def series(self, metric: Metric, chosen: Iterable[Labels] = ...) -> str:
        """The selector of the metric's series: all, or little more than those chosen. Raises ValueError for none."""
        ...

    def ranks(self) -> str:
        """The selector of how many ranks each engine counts for."""
        ...

    def described(
        self, metric: Metric, found: Sequence[Labels], agents: Iterable[Labels]
    ) -> Sequence[Mapping[Label, str]]:
        """The labels of these series in our words; the host is empty where no target says it."""
        ...


class Buckets(Protocol):
    """Stored usage that is worked out from readings of elsewhere."""

    def newest(self) -> datetime | None:
        """The start of the newest bucket that is stored."""
        ...

    def put(self, bucket: datetime, readings: Mapping[HostName, Sequence[HostReading]], now: datetime) -> int:
        """Work the bucket out anew from these readings, which reach beyond it on both sides; returns how many shares.

        What is stored stays where the readings know less than it does.
        """
        ...
