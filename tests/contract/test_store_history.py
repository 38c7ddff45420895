"""The past of any series: the store against the plainest oracle, before and after compaction, over layers and holes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.store import FakeStore
from fakes.store_batches import batch

from tidegate.model.history import (
    METRICS,
    OF_COUNTERS,
    OF_GAUGES,
    Across,
    Aggregate,
    History,
    Kind,
    Label,
    Layer,
    LimitError,
    Limits,
    Question,
)
from tidegate.model.reading import (
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuFigure,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Missing,
    Number,
    Rank,
)
from tidegate.model.records import Compacted
from tidegate.store.database import Database
from tidegate.store.schema import replica
from tidegate.store.store import Store
from tidegate.wire import EngineStatus, GpuState, HostState

START = datetime(2026, 11, 25, 7, 50, tzinfo=UTC)
EVERY = timedelta(seconds=120)
ROUNDS = 165
HOSTS = (HostName("h1"), HostName("h2"))
BOUNDS = (0.1, 1.0, math.inf)


def look(host: HostName, at: datetime, number: int, rng: random.Random) -> HostReading:
    """Two engines and a GPU; figures are missing now and then, counters begin anew."""
    engines = []
    for name, alive in (("vllm-0", True), ("vllm-1", number > 50)):
        if not alive or rng.random() < 0.05:
            continue
        since = number % 70  # a restart every 70 rounds
        queue: Number = Missing(Gap.STALE) if rng.random() < 0.1 else float(rng.randint(0, 9))
        counts = tuple(float(since * share) for share in (1, 3, 4))
        engines.append(
            EngineReading(
                EngineName(name),
                EngineKind.VLLM,
                EngineState.READY,
                at,
                gauges={(Gauge.QUEUE_DEPTH, Rank("0")): queue},
                counters={(Counter.PROMPT_TOKENS, Rank("0")): 7.0 * since + rng.randint(0, 6)},
                histograms={(Distribution.TTFT, Rank("0")): Histogram(BOUNDS, counts, 0.0, counts[-1])},
            )
        )
    gpu = GpuReading(GpuUuid(f"GPU-{host}"), 0, "", up=True, figures={GpuFigure.UTILIZATION: rng.random()})
    return HostReading(host, at, GpuSurvey(up=True, why="", at=at, gpus=(gpu,)), tuple(engines))


def state(host: HostName) -> HostState:
    engines = [
        EngineStatus(name=name, url="http://e", state="ready", pool=pool, service="chat", gpu_indices=gpus)
        for name, pool, gpus in (("vllm-0", "base", [0]), ("vllm-1", "burst", []))
    ]
    return HostState(gpus=[GpuState(index=0, uuid=f"GPU-{host}")], nvml_up=True, engines=engines)


class Both:
    """The same reports in both stores."""

    def __init__(self, store: Store) -> None:
        self.real, self.fake = store, FakeStore()
        self.looks = {host: _looks(host) for host in HOSTS}
        for host in HOSTS:
            for store_ in (self.real, self.fake):
                store_.hosts.enroll(host, f"token of {host}", START)
                store_.hosts.seen(host, state(host), START)

    def report(self, host: HostName, numbers: Sequence[int]) -> None:
        """Let the host deliver these rounds, at the time of the last one."""
        received = START + EVERY * max(numbers)
        layouts, reports = batch(*(self.looks[host][number] for number in numbers), first=min(numbers) + 1)
        for store in (self.real, self.fake):
            store.reports.accept(host, layouts, reports, received)

    def compact(self, now: datetime) -> None:
        while self.real.compaction.compact(now) != Compacted():
            pass

    def agree(self, question: Question) -> tuple[History, History]:
        """Both answers, the same but for the layer and the last digits of float32."""
        ours, theirs = self.real.histories.query(question), self.fake.histories.query(question)
        assert [dict(line.labels) for line in ours.lines] == [dict(line.labels) for line in theirs.lines]
        for our, their in zip(ours.lines, theirs.lines, strict=True):
            assert list(our.at) == pytest.approx(list(their.at))
            assert [value is None for value in our.values] == [value is None for value in their.values], question
            known = [value for value in our.values if value is not None]
            assert known == pytest.approx([value for value in their.values if value is not None], rel=1e-5), question
        return ours, theirs


def _looks(host: HostName) -> list[HostReading]:
    rng = random.Random(host)
    offset = timedelta(seconds=HOSTS.index(host) * 7, milliseconds=3)
    return [look(host, START + EVERY * number + offset, number, rng) for number in range(ROUNDS)]


@pytest.fixture
def both(database: Database) -> Both:
    made = Both(Store(database))
    for first in range(0, ROUNDS, 33):
        for host in HOSTS:
            made.report(host, range(first, first + 33))
    return made


END = START + EVERY * ROUNDS
QUEUE, TOKENS = METRICS["queue_depth"], METRICS["prompt_tokens"]
STEPS = [timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=7), timedelta(hours=2)]


def ask(both: Both, since: datetime = START - timedelta(hours=1), until: datetime = END) -> int:
    """Every aggregate of every kind, each step, alone and in groups; answers how many lines were compared."""
    lines = 0
    for step in STEPS:
        for aggregate in sorted(OF_GAUGES):
            lines += len(both.agree(Question(QUEUE, since, until, step, aggregate))[0].lines)
        for aggregate in sorted(OF_COUNTERS):
            lines += len(both.agree(Question(TOKENS, since, until, step, aggregate))[0].lines)
        for across in Across:
            grouped = Question(QUEUE, since, until, step, Aggregate.AVG, by=(Label.POOL,), across=across)
            lines += len(both.agree(grouped)[0].lines)
        for by in (None, (Label.SERVICE,), ()):
            lines += len(both.agree(Question(METRICS["ttft"], since, until, step, Aggregate.P95, by=by))[0].lines)
    lines += len(both.agree(Question(TOKENS, since, until))[0].lines)
    return lines + len(both.agree(Question(METRICS["gpu_utilization"], since, until))[0].lines)


AGES: dict[str, Callable[[Both], None]] = {
    "as reported": lambda both: both.compact(START + timedelta(minutes=1)),
    "partly compacted": lambda both: both.compact(START + timedelta(hours=4)),
    "compacted": lambda both: both.compact(END + timedelta(hours=3)),
    "cold": lambda both: both.compact(END + timedelta(days=2)),
}


@pytest.mark.parametrize("age", AGES)
def test_the_answer_is_the_same_at_every_age(both: Both, age: str) -> None:
    AGES[age](both)

    assert ask(both) > 150


def test_a_late_backlog_is_there_at_once_and_after_compaction(database: Database) -> None:
    both = Both(Store(database))
    early, backlog, late = range(30), range(30, 100), range(100, ROUNDS)
    for rounds in (early, late):
        for host in HOSTS:
            both.report(host, rounds)
    both.compact(END + timedelta(hours=3))
    both.report(HOSTS[0], backlog)

    ask(both)
    both.compact(END + timedelta(days=1))
    ask(both)


def test_part_of_a_window_is_cut_to_the_moment(both: Both) -> None:
    both.compact(END + timedelta(hours=3))

    ask(both, START + timedelta(minutes=33), START + timedelta(minutes=101))


def test_the_coarsest_layer_that_is_fine_enough_answers(both: Both) -> None:
    both.compact(END + timedelta(hours=3))

    for step, layer in zip(STEPS, (Layer.RAW, Layer.FIVE_MINUTES, Layer.RAW, Layer.HOUR), strict=True):
        assert both.real.histories.query(Question(QUEUE, START, END, step)).layer is layer


def test_series_are_chosen_by_every_label(both: Both) -> None:
    both.compact(END + timedelta(hours=3))
    for label, value in (
        (Label.HOST, "h2"),
        (Label.POOL, "burst"),
        (Label.SERVICE, "chat"),
        (Label.ENGINE, "vllm-1"),
        (Label.RANK, "0"),
        (Label.GPU, "GPU-h1"),
        (Label.LE, "1.0"),
    ):
        for metric in (QUEUE, METRICS["gpu_utilization"], METRICS["ttft_bucket"]):
            step = timedelta(hours=1)
            aggregate = Aggregate.RATE if metric.kind is Kind.COUNTER else Aggregate.AVG
            question = Question(metric, START, END, step, aggregate, where={label: frozenset({value})})
            both.agree(question)
            assert both.real.histories.labels(metric, label, START, END) == both.fake.histories.labels(
                metric, label, START, END
            )


def test_what_is_too_much_is_refused_by_the_limit_s_name(both: Both) -> None:
    both.compact(END + timedelta(hours=3))
    question = Question(QUEUE, START, END, timedelta(minutes=1))
    for limits, says in (
        (Limits(series=2), "more than 2 series"),
        (Limits(points=100), "points, and 100 is the limit"),
        (Limits(samples=100), "samples to be read, and 100 is the limit"),
    ):
        with pytest.raises(LimitError, match=says):
            both.real.histories.query(question, limits)
    with pytest.raises(LimitError, match="points, and 100 is the limit"):
        both.real.histories.query(replace(question, step=None), Limits(points=100))
    grouped = replace(question, by=(Label.POOL,))
    assert len(both.real.histories.query(grouped, Limits(series=2)).lines) == 2


def test_hosts_that_are_not_compacted_yet_are_bounded(both: Both) -> None:
    both.compact(START + timedelta(minutes=1))
    question = Question(QUEUE, START, END, timedelta(minutes=5))

    with pytest.raises(LimitError, match="hosts with reports that are not compacted yet, and 1 is the limit"):
        both.real.histories.query(question, Limits(hosts=1))


def test_where_samples_are_gone_a_wider_step_answers_and_says_so(both: Both, database: Database) -> None:
    both.compact(END + timedelta(hours=3))
    with database.begin() as connection:
        for table in ("chunk", "chunk_clock", "report"):
            connection.exec_driver_sql(f"DELETE FROM {table}")

    found = both.real.histories.query(Question(QUEUE, START, START + timedelta(hours=3), timedelta(minutes=1)))

    assert (found.layer, found.step) == (Layer.FIVE_MINUTES, timedelta(minutes=5))
    assert "step widened from 0:01:00 to 0:05:00" in found.notes[0]
    assert len(found.lines) == 4


def test_a_replica_keeps_its_pool_when_the_inventory_has_forgotten_it(both: Both, database: Database) -> None:
    both.compact(END + timedelta(hours=3))
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM engine WHERE name = 'vllm-1'")
        connection.execute(
            replica.insert().values(
                id="vllm-1",
                pool="burst",
                serial=1,
                service="chat",
                host="h1",
                template="t",
                gpus=[],
                gpu_count=1,
                port=0,
                want="stop",
                state="stopped",
                since=START,
                requested_at=START,
                managed=True,
                cut_requests=0,
                why="",
            )
        )

    chosen = Question(QUEUE, START, END, timedelta(hours=2), where={Label.POOL: frozenset({"burst"})})

    assert [line.labels[Label.HOST] for line in both.real.histories.query(chosen).lines] == ["h1"]


@pytest.mark.parametrize(("view", "step"), [("v_series_5m", timedelta(minutes=5)), ("v_series_1h", timedelta(hours=1))])
def test_the_views_of_series_say_the_same(both: Both, database: Database, view: str, step: timedelta) -> None:
    both.compact(END + timedelta(hours=3))
    for metric, column, aggregate in ((QUEUE, "average", Aggregate.AVG), (TOKENS, "increase", Aggregate.INCREASE)):
        found = both.real.histories.query(Question(metric, START, END, step, aggregate))
        wanted = {
            (line.labels[Label.HOST], line.labels[Label.ENGINE], line.labels[Label.POOL], at): value
            for line in found.lines
            for at, value in zip(line.at, line.values, strict=True)
            if value is not None
        }
        query = (
            f"SELECT host, owner, pool, extract(epoch FROM at)::float8, {column} FROM {view} "
            "WHERE metric = %s AND at < %s AND window_start < %s"
        )
        with database.begin() as connection:
            rows = connection.exec_driver_sql(query, (metric.name, END, END)).all()
        shown = {tuple(row[:4]): row[4] for row in rows if row[4] is not None}

        assert shown.keys() == wanted.keys()
        assert [shown[key] for key in wanted] == pytest.approx(list(wanted.values()), rel=1e-5)
