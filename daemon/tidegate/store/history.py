"""The past of any series: found, read from the right layer, completed by what is not compacted yet, grouped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

import numpy as np
from sqlalchemy import Connection, exists, or_, select

from tidegate.model.history import (
    QUANTILES,
    History,
    Kind,
    Label,
    Layer,
    LimitError,
    Limits,
    Line,
    Metric,
    Question,
)
from tidegate.store.binary import microseconds
from tidegate.store.chunk_codec import ABSENT
from tidegate.store.database import Database
from tidegate.store.history_find import Found, find, values_of
from tidegate.store.history_layers import TABLES, WIDTHS, Choice, choose
from tidegate.store.history_math import PARTS, Matrix, bucketed, empty, grouped, quantiles, widened
from tidegate.store.history_math import values_of as step_values
from tidegate.store.history_rollup import read_rollup
from tidegate.store.history_samples import Samples, read_samples
from tidegate.store.layouts import Layouts
from tidegate.store.schema_series import COLD, WINDOW, chunk_clock, series_window
from tidegate.store.totals import FAR

_LOOKBACK = timedelta(minutes=10)
"""How far before the first step a counter's last sample is looked for: its first increase begins there."""
_MICROSECONDS = 1_000_000


_Groups = dict[tuple[tuple[Label, str], ...], list[int]]
"""The rows of each group, by the labels of its line."""


class StoredHistory:
    """Implements the port `Histories`."""

    def __init__(self, database: Database, layouts: Layouts | None = None) -> None:
        self._database = database
        self._layouts = layouts or Layouts(database)

    def query(self, question: Question, limits: Limits = Limits()) -> History:  # noqa: B008 - a frozen value
        """The answer to a question; see the port."""
        question = question.bounded(limits)
        with self._database.begin() as connection:
            look = _Look(connection, self._layouts, question, limits, find(connection, question, limits))
            return look.raw() if question.step is None else look.stepped(question.step)

    def labels(self, metric: Metric, label: Label, since: datetime, until: datetime) -> Sequence[str]:
        """The values that a label has among the metric's series seen in the time."""
        with self._database.begin() as connection:
            return values_of(connection, Question(metric, since, until), label)


@dataclass(frozen=True, slots=True)
class _Look:
    """One question on one connection."""

    connection: Connection
    layouts: Layouts
    question: Question
    limits: Limits
    found: Sequence[Found]

    def raw(self) -> History:
        """Every sample."""
        question = self.question
        self._bound_samples(self.limits.points, "points")
        lines = []
        for _, members in self._by_host():
            read = read_samples(self.connection, self.layouts, members, question.since, question.until)
            lines += [_raw_line(one, read, row) for row, one in enumerate(members)]
        present = sorted((line for line in lines if line.at), key=lambda line: _words(line.labels))
        return History(question, None, Layer.RAW, tuple(present))

    def stepped(self, step: timedelta) -> History:
        """One value a step."""
        question = self.question
        if not self.found:
            return History(question, step, Layer.RAW, ())
        choice = choose(self.connection, question, step, self.found)
        grid = question.grid(choice.step)
        groups = self._groups()
        self._bound_points(len(groups), len(grid))
        parts = self._parts(choice, grid)
        values = step_values(question.aggregate, parts, choice.step.total_seconds())
        lines = _lines(self._combined(values, groups), groups, grid)
        return History(question, choice.step, choice.layer, lines, (choice.note,) if choice.note else ())

    def _groups(self) -> _Groups:
        """The rows of each group, by the labels that its line will have."""
        question = self.question
        distribution = question.metric.kind is Kind.DISTRIBUTION
        kept = question.by if question.by is not None else tuple(Label)
        groups: _Groups = {}
        for row, one in enumerate(self.found):
            names = {k: v for k, v in one.labels.items() if k in kept and not (distribution and k is Label.LE)}
            groups.setdefault(tuple(names.items()), []).append(row)
        return dict(sorted(groups.items(), key=lambda item: _words(dict(item[0]))))

    def _combined(self, values: Matrix, groups: _Groups) -> Matrix:
        question = self.question
        if question.metric.kind is Kind.DISTRIBUTION:
            q = QUANTILES[question.aggregate]
            return np.array([self._quantile(values, rows, q) for rows in groups.values()])
        if question.by is None:
            return values[[row for rows in groups.values() for row in rows]]
        places = np.empty(len(values), np.intp)
        for number, rows in enumerate(groups.values()):
            places[rows] = number
        return grouped(values, places.tolist(), len(groups), question.across)

    def _quantile(self, values: Matrix, rows: Sequence[int], q: float) -> Matrix:
        """Of all histograms of the group together, by the bounds that they have in common."""
        members: dict[tuple[str, ...], dict[float, int]] = {}
        for row in rows:
            one = self.found[row]
            members.setdefault((one.host, one.key.owner, one.key.rank), {})[float(one.key.le)] = row
        common = sorted(set.intersection(*(set(bounds) for bounds in members.values())))
        if not common or not np.isinf(common[-1]):
            return np.full(values.shape[1], np.nan)
        sums = [
            grouped(values[[m[b] for m in members.values()]], [0] * len(members), 1, self.question.across)[0]
            for b in common
        ]
        return quantiles(common, np.array(sums), q)

    def _parts(self, choice: Choice, grid: range) -> dict[str, Matrix]:
        """What every step of every series is made of."""
        names = PARTS[self.question.aggregate]
        if choice.layer is Layer.RAW:
            self._bound_samples(self.limits.samples, "samples to be read")
            parts = empty(names, len(self.found), len(grid))
            for rows, members in self._by_host():
                self._fill(parts, rows, members, grid, (grid.start, grid.stop))
            return parts
        width = int(WIDTHS[choice.layer].total_seconds())
        fine = range(grid.start, grid.stop + (-(grid.stop - grid.start)) % grid.step, width)
        self._bound("samples to be read", len(self.found) * len(fine), self.limits.samples)
        parts = read_rollup(self.connection, TABLES[choice.layer], self.found, names, fine)
        self._complete(parts, fine)
        return widened(parts, grid.step // width)

    def _complete(self, parts: Mapping[str, Matrix], grid: range) -> None:
        """Put in what rollups do not know yet: the running window, and those that late reports came for."""
        stale = self._stale(grid)
        self._bound("hosts with reports that are not compacted yet", len(stale), self.limits.hosts)
        for rows, members in self._by_host():
            for start in stale.get(members[0].host, ()):
                self._fill(parts, rows, members, grid, (start, start + int(WINDOW.total_seconds())))

    def _stale(self, grid: range) -> dict[str, list[int]]:
        """The starts of windows whose reports are not all in the rollups, and of those right after them, by host.

        Their first increases begin at totals that the rollups did not know.
        """
        columns, before = series_window.c, series_window.alias("before").c
        follows = exists().where(
            before.host == columns.host, before.start == columns.start - WINDOW, before.done < before.version
        )
        query = select(columns.host, columns.start).where(
            columns.host.in_({one.host for one in self.found}),
            columns.start > _moment(grid.start) - WINDOW,
            columns.start < _moment(grid.stop),
            or_(columns.done < columns.version, follows),
        )
        found: dict[str, list[int]] = {}
        for host, start in self.connection.execute(query):
            found.setdefault(host, []).append(int(start.timestamp()))
        return found

    def _fill(
        self,
        parts: Mapping[str, Matrix],
        rows: Sequence[int],
        members: Sequence[Found],
        grid: range,
        span: tuple[int, int],
    ) -> None:
        """Work out the buckets inside the span from a host's samples."""
        first = max(0, (span[0] - grid.start) // grid.step)
        last = min(len(grid), -(-(span[1] - grid.start) // grid.step))
        since, until = _moment(grid.start + first * grid.step), _moment(grid.start + last * grid.step)
        read = read_samples(self.connection, self.layouts, members, since - _LOOKBACK, until)
        if "increase" in parts:
            read = self._from_earlier(read, members, since)
        places = (read.moments - int(since.timestamp()) * _MICROSECONDS) // (grid.step * _MICROSECONDS)
        for name, values in bucketed(tuple(parts), read.values, places, last - first).items():
            parts[name][rows, first:last] = values

    def _from_earlier(self, read: Samples, members: Sequence[Found], since: datetime) -> Samples:
        """With the last total before the lookback, of counters that have none in it: their host was silent longer."""
        known = ~np.isnan(read.values)
        early = read.moments < microseconds(since)
        wanting = np.flatnonzero(known[:, ~early].any(axis=1) & ~known[:, early].any(axis=1)).tolist()
        if not wanting:
            return read
        far = [members[row] for row in wanting]
        past = read_samples(self.connection, self.layouts, far, since - FAR, since - _LOOKBACK)
        totals = np.full((len(members), 1), np.nan)
        for row, values in zip(wanting, past.values, strict=True):
            numbers = values[~np.isnan(values)]
            totals[row] = numbers[-1] if len(numbers) else np.nan
        before = np.array([microseconds(since - _LOOKBACK)], np.int64)
        return Samples(np.concatenate((before, read.moments)), np.concatenate((totals, read.values), axis=1))

    def _by_host(self) -> Iterator[tuple[list[int], list[Found]]]:
        """The rows and the series of each host."""
        order = sorted(range(len(self.found)), key=lambda row: self.found[row].host)
        for _, rows in groupby(order, key=lambda row: self.found[row].host):
            mine = list(rows)
            yield mine, [self.found[row] for row in mine]

    def _bound_points(self, lines: int, steps: int) -> None:
        self._bound("lines", lines, self.limits.series)
        self._bound("points", lines * steps, self.limits.points)

    def _bound_samples(self, most: int, what: str) -> None:
        """Count what lies in chunks before any of it is read."""
        hosts: dict[str, int] = {}
        for one in self.found:
            hosts[one.host] = hosts.get(one.host, 0) + 1
        columns, question = chunk_clock.c, self.question
        query = select(columns.host, columns.start, columns.samples, columns.cold).where(
            columns.host.in_(hosts), columns.start > question.since - COLD, columns.start < question.until
        )
        total = 0.0
        for row in self.connection.execute(query):
            end = row.start + (COLD if row.cold else WINDOW)
            inside = min(end, question.until) - max(row.start, question.since)
            total += hosts[row.host] * row.samples * max(0.0, inside / (end - row.start))
        self._bound(what, int(total), most)

    def _bound(self, what: str, asked: int, most: int) -> None:
        if asked > most:
            raise LimitError(f"the answer takes {asked:,} {what}, and {most:,} is the limit")


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _words(labels: Mapping[Label, str]) -> tuple[str, ...]:
    return tuple(labels.get(label, "") for label in Label)


def _raw_line(one: Found, read: Samples, row: int) -> Line:
    values = read.values[row]
    shown = values.view(np.uint64) != ABSENT
    return Line(one.labels, (read.moments[shown] / _MICROSECONDS).tolist(), _numbers(values[shown]))


def _numbers(values: Matrix) -> list[float | None]:
    """NaN as None."""
    numbers: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)):
        numbers[place] = None
    return numbers


def _lines(values: Matrix, groups: _Groups, grid: range) -> tuple[Line, ...]:
    at = [float(start) for start in grid]
    rows = zip(groups, values, strict=True)
    return tuple(Line(dict(labels), at, _numbers(row)) for labels, row in rows if not np.isnan(row).all())
