"""The past by the plainest means: every stored reading flattened, every rule a loop. The oracle of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from fakes.store_samples import FakeHosts, FakeReports

from tidegate.model.history import (
    QUANTILES,
    Across,
    Aggregate,
    History,
    Kind,
    Label,
    Layer,
    LimitError,
    Limits,
    Line,
    Metric,
    Question,
    Scope,
)
from tidegate.model.reading import Histogram, HostName, Missing, Number
from tidegate.model.series import SeriesKey, flatten
from tidegate.model.window import quantile

Labels = tuple[tuple[Label, str], ...]
Sample = tuple[float, float | None]
_EARLIER = timedelta(minutes=10)


class FakeHistories:
    """Histories over the fake reports."""

    def __init__(self, reports: FakeReports, hosts: FakeHosts) -> None:
        self.reports, self.hosts = reports, hosts
        self._flat: list[tuple[HostName, datetime, SeriesKey, Number]] = []
        self._rows = 0

    def query(self, question: Question, limits: Limits = Limits()) -> History:  # noqa: B008 - a frozen value
        question = question.bounded(limits)
        found = self._samples(question)
        if question.step is None:
            since, until = question.since.timestamp(), question.until.timestamp()
            cut = {labels: [one for one in row if since <= one[0] < until] for labels, row in found.items()}
            lines = [Line(dict(k), [t for t, _ in row], [v for _, v in row]) for k, row in cut.items() if row]
            return _bounded(History(question, None, Layer.RAW, tuple(lines)), limits)
        grid = question.grid(question.step)
        values = {labels: _steps(question, row, grid) for labels, row in found.items()}
        lines = [Line(dict(k), [float(s) for s in grid], row) for k, row in _grouped(question, values).items()]
        kept = tuple(line for line in lines if any(value is not None for value in line.values))
        return _bounded(History(question, question.step, Layer.RAW, kept), limits)

    def labels(self, metric: Metric, label: Label, since: datetime, until: datetime) -> Sequence[str]:
        found = self._samples(Question(metric, since, until))
        return sorted({value for labels in found for name, value in labels if name is label})

    def _samples(self, question: Question) -> dict[Labels, list[Sample]]:
        name = question.metric.name
        name = f"{name}_bucket" if question.metric.kind is Kind.DISTRIBUTION else name
        end = question.until + (question.step or timedelta())
        rows: dict[Labels, list[Sample]] = {}
        since = question.since - (question.step or timedelta()) - _EARLIER
        for host, at, key, value in self._everything():
            if (key.scope, key.name) == (question.metric.scope.value, name) and since <= at < end:
                labels = self._labels(host, key)
                if all(dict(labels).get(label, "") in among for label, among in question.where.items()):
                    sample = (at.timestamp(), None if isinstance(value, Missing) else value)
                    rows.setdefault(labels, []).append(sample)
        return dict(sorted(rows.items(), key=lambda item: _words(item[0])))

    def _everything(self) -> list[tuple[HostName, datetime, SeriesKey, Number]]:
        """Every stored figure; remembered while no report comes."""
        if self._rows != len(self.reports.rows):
            readings = self.reports.readings(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
            self._flat = [
                (reading.host, reading.at, key, value)
                for reading in readings
                for key, value in zip(*flatten(reading), strict=True)
            ]
            self._rows = len(self.reports.rows)
        return self._flat

    def _labels(self, host: HostName, key: SeriesKey) -> Labels:
        found = {Label.HOST: host, Label.RANK: key.rank, Label.LE: key.le}
        state = self.hosts.records[host].state if host in self.hosts.records else None
        engines = state.engines if state else []
        if key.scope == Scope.ENGINE:
            mine = [engine for engine in engines if engine.name == key.owner]
            found[Label.ENGINE] = key.owner
        else:
            index = [gpu.index for gpu in (state.gpus if state else []) if gpu.uuid == key.owner]
            mine = [engine for engine in engines if index and index[0] in engine.gpu_indices]
            found |= {Label.GPU: key.owner, Label.ENGINE: mine[0].name if mine else ""}
        if mine:
            found |= {Label.POOL: mine[0].pool, Label.SERVICE: mine[0].service}
        return tuple((label, found[label]) for label in Label if found.get(label))


def _words(labels: Labels) -> tuple[str, ...]:
    return tuple(dict(labels).get(label, "") for label in Label)


def _bounded(answer: History, limits: Limits) -> History:
    points = sum(len(line.values) for line in answer.lines)
    if len(answer.lines) > limits.series or points > limits.points:
        raise LimitError(f"the answer takes {points} points, and {limits.points} is the limit")
    return answer


def _steps(question: Question, row: Sequence[Sample], grid: range) -> list[float | None]:
    """The value of each step."""
    inside: dict[int, list[float]] = {}
    grown: dict[int, list[float]] = {}
    last: float | None = None
    for at, value in row:
        if value is None:
            continue
        step = (int(at) - grid.start) // grid.step
        inside.setdefault(step, []).append(value)
        if last is not None:
            grown.setdefault(step, []).append(value - last if value >= last else value)
        last = value
    return [_value(question, inside.get(step, []), grown.get(step, []), grid.step) for step in range(len(grid))]


def _value(question: Question, inside: Sequence[float], grown: Sequence[float], seconds: int) -> float | None:
    plain = {Aggregate.AVG: lambda: sum(inside) / len(inside), Aggregate.MIN: lambda: min(inside)}
    plain |= {Aggregate.MAX: lambda: max(inside), Aggregate.SUM: lambda: sum(inside)}
    plain |= {Aggregate.COUNT: lambda: float(len(inside)), Aggregate.LAST: lambda: inside[-1]}
    if question.aggregate in plain:
        return plain[question.aggregate]() if inside else None
    if not grown:
        return None
    return sum(grown) / seconds if question.aggregate is Aggregate.RATE else sum(grown)


_Rows = Mapping[Labels, Sequence[float | None]]


def _grouped(question: Question, rows: _Rows) -> dict[Labels, list[float | None]]:
    distribution = question.metric.kind is Kind.DISTRIBUTION
    kept = set(Label) if question.by is None else set(question.by)

    def group(labels: Labels) -> Labels:
        return tuple((k, v) for k, v in labels if k in kept and not (distribution and k is Label.LE))

    result: dict[Labels, list[float | None]] = {}
    for labels, members in groupby(sorted(rows, key=lambda one: _words(group(one))), key=group):
        mine = list(members)
        steps = range(len(rows[mine[0]]))
        if distribution:
            result[labels] = [_quantile(question, [(dict(k)[Label.LE], rows[k][step]) for k in mine]) for step in steps]
        else:
            result[labels] = [_across(question.across, [rows[k][step] for k in mine]) for step in steps]
    return result


def _across(across: Across, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    rules = {Across.SUM: sum(known), Across.AVG: sum(known) / len(known), Across.MIN: min(known)}
    return rules.get(across, max(known))


def _quantile(question: Question, buckets: Sequence[tuple[str, float | None]]) -> float | None:
    sums: dict[float, float] = {}
    for le, value in buckets:
        if value is not None:
            sums[float(le)] = sums.get(float(le), 0.0) + value
    if not sums:
        return None
    bounds = tuple(sorted(sums))
    counts = tuple(sums[bound] for bound in bounds)
    found = quantile(Histogram(bounds, counts, 0.0, counts[-1]), QUANTILES[question.aggregate])
    return None if isinstance(found, Missing) else found
