"""A period of every series as rows, a metric and a piece of time after the other, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf

from tidegate.model.history import METRICS, Aggregate, Kind, Label, Limits, Metric, Question
from tidegate.store.history import StoredHistory
from tidegate.store.schema_series import COLD

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNLIMITED = Limits(series=1 << 40, points=1 << 40, samples=1 << 40, hosts=1 << 40)
"""A piece is what bounds an export; of every host at once a metric's hours would be too much."""
COLUMNS = ("at", "metric", *(label.value for label in Label), "value")


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows, as columns of equal length."""

    at: Sequence[datetime]
    metric: Sequence[str]
    labels: dict[Label, list[str]]
    value: Sequence[float | None]
    """None where the sample was missing, which is never zero."""


@dataclass(frozen=True, slots=True)
class Export:
    """What to export: every sample (`step` None) or one value a step; of these metrics and hosts, or of all."""

    since: datetime
    until: datetime
    step: timedelta | None = None
    metrics: tuple[Metric, ...] = ()
    hosts: tuple[str, ...] = ()

    def chosen(self) -> list[Metric]:
        """The metrics, by name; a histogram's buckets stand for it."""
        return [one for one in self.metrics or METRICS.values() if one.kind is not Kind.DISTRIBUTION]

    def pieces(self) -> Iterator[tuple[datetime, datetime]]:
        """The period in pieces, oldest first, cut between steps and close to where stored rows are.

        A step that two pieces shared would be in both of them.
        """
        start = self.since
        while start < self.until:
            cut = min(self._cut(start), self.until)
            yield start, cut
            start = cut

    def _cut(self, start: datetime) -> datetime:
        """Where the piece that begins there ends."""
        row_ends = start - (start - _EPOCH) % COLD + COLD
        if self.step is None:
            return row_ends
        last = row_ends - (row_ends - _EPOCH) % self.step
        return last if last > start else start - (start - _EPOCH) % self.step + self.step


def rows_of(history: StoredHistory, wanted: Export) -> Iterator[tuple[float, Rows]]:
    """The rows, and how much of the whole is done with them, 0 to 1.

    Counters are totals as the engines had them when every sample is asked for, increases of a step otherwise.
    """
    metrics, pieces = wanted.chosen(), list(wanted.pieces())
    done, all_of_it = 0, len(metrics) * len(pieces) or inf
    for since, until in pieces:
        for metric in metrics:
            for host in _hosts(history, metric, since, until, wanted.hosts):
                yield done / all_of_it, _rows(history, metric, Question(
                    metric, since, until, wanted.step,
                    Aggregate.INCREASE if metric.kind is Kind.COUNTER else Aggregate.AVG,
                    {Label.HOST: frozenset({host})},
                ))  # fmt: skip
            done += 1


def _hosts(
    history: StoredHistory, metric: Metric, since: datetime, until: datetime, wanted: tuple[str, ...]
) -> Sequence[str]:
    """Hosts that have such series, one by one: what of one host is in memory at a time is bounded."""
    present = history.labels(metric, Label.HOST, since, until)
    return [host for host in present if not wanted or host in wanted]


def _rows(history: StoredHistory, metric: Metric, question: Question) -> Rows:
    answer = history.query(question, _UNLIMITED)
    at: list[datetime] = []
    value: list[float | None] = []
    labels: dict[Label, list[str]] = {label: [] for label in Label}
    for line in answer.lines:
        kept = [(moment, number) for moment, number in zip(line.at, line.values, strict=True)
                if question.step is None or number is not None]  # fmt: skip
        at += [datetime.fromtimestamp(moment, UTC) for moment, _ in kept]
        value += [number for _, number in kept]
        for label in Label:
            labels[label] += [line.labels.get(label, "")] * len(kept)
    return Rows(at, [str(metric)] * len(at), labels, value)
