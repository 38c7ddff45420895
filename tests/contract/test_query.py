"""Questions about the past over /v1/query, from the typed client to the answer, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx
import pytest
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, World, engine, host_state, own_engine, reading

from tidegate.controller.queries import Queries
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.link.command_client import CommandClient
from tidegate.link.operator_client import OperatorClient
from tidegate.link.query_messages import QueryForm
from tidegate.model.history import METRICS, Aggregate, History, Label, Layer, Limits, Question, metric
from tidegate.runtime.errors import Permanent, Transient
from tidegate.runtime.serve import HttpServer, tcp

EVERY = timedelta(seconds=15)


@dataclass
class Desk:
    """A controller that serves."""

    world: World
    url: str

    def ask(self, **words: object) -> httpx.Response:
        return httpx.get(f"{self.url}/v1/query", params=words, trust_env=False)  # type: ignore[arg-type]

    def answer(self, **words: object) -> dict[str, object]:
        found = self.ask(**words)
        assert found.status_code == 200, found.text
        return dict(found.json())


@pytest.fixture
def desk(now: datetime) -> Iterator[Desk]:
    """Two hosts with an engine each, a minute of reports; the second one's queue is not known at first."""
    world = World(ManualClock(now))
    world.enroll(H1, H2)
    for number in range(4):
        for host, queue in ((H1, float(number)), (H2, None if number < 2 else 10.0)):
            known = {} if queue is None else {"queue_depth": queue}
            seen = reading(host, now, [engine("vllm-a", now, running=1.0, prompt_tokens=100.0 * number, **known)])
            world.report(host, seen, state=host_state(2, [own_engine()], seen_at=now), first=number + 1)
        now = world.clock.forward(EVERY.total_seconds())
    app = build_app(world.api, ControllerPages(world.clock, lambda: (True, "")))
    server = HttpServer(app, tcp("127.0.0.1", 0), "t")
    server.start()
    try:
        yield Desk(world, f"http://127.0.0.1:{server.port}")
    finally:
        server.stop()


def test_samples_come_as_they_were_taken_with_their_labels(desk: Desk, now: datetime) -> None:
    found = desk.answer(metric="queue_depth", host=H1, since=now.isoformat())

    (line,) = found["series"]  # type: ignore[misc]
    assert line["labels"] == {"host": H1, "pool": "base", "service": "chat", "engine": "vllm-a", "rank": "0"}
    assert line["values"] == [0.0, 1.0, 2.0, 3.0]
    assert line["at"] == [now.timestamp() + 15 * number for number in range(4)]
    assert (found["step_seconds"], found["aggregate"], found["layer"]) == (None, None, "raw")


def test_a_step_without_a_sample_is_null(desk: Desk, now: datetime) -> None:
    found = desk.answer(metric="queue_depth", host=H2, step="15s", since=now.isoformat())

    assert found["series"][0]["values"] == [None, None, 10.0, 10.0]  # type: ignore[index]
    assert found["at"] == [now.timestamp() + 15 * number for number in range(4)]


def test_the_typed_client_asks_for_groups_and_rates(desk: Desk, now: datetime) -> None:
    client = OperatorClient(CommandClient(desk.url, None))
    form = QueryForm(metric="prompt_tokens", since=now, step="1m", pool=["base"], by=[Label.POOL])

    found = client.history(form)

    assert found.aggregate is Aggregate.RATE
    assert [(line.labels, line.values) for line in found.series] == [({Label.POOL: "base"}, [600.0 / 60])]
    alone = client.history(QueryForm(metric="running", since=now, step="1m", all=True))
    assert [(line.labels, line.values) for line in alone.series] == [({}, [2.0])]
    with pytest.raises(Permanent, match="did you mean queue_depth"):
        client.history(QueryForm(metric="queue_dept"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"metric": "nonsense"}, "there is no metric 'nonsense'"),
        (
            {"metric": "queue_depth", "since": "2026-11-25T12:00:00Z", "until": "2026-11-25T11:00:00Z"},
            "`since` must be",
        ),
        ({"metric": "queue_depth", "step": "soon"}, "no duration: write such as 30s"),
        ({"metric": "queue_depth", "step": "0s"}, "at least one"),
        ({"metric": "queue_depth", "step": "1m", "aggregate": "rate"}, "is a gauge: ask for avg"),
        ({"metric": "prompt_tokens", "step": "1m", "aggregate": "avg"}, "is a counter: ask for increase"),
        ({"metric": "ttft"}, "give a `step` and ask for p50"),
        ({"metric": "queue_depth", "by": "pool"}, "give a `step` to group them by"),
        ({"metric": "queue_depth", "since": "1999-01-01T00:00:00Z"}, "give a time between 2000 and 2199"),
        ({"metric": "queue_depth", "pol": "base"}, "the request is not valid"),
        ({"metric": "queue_depth", "step": "1s", "since": "2020-01-01T00:00:00Z"}, "is the limit"),
    ],
)
def test_a_question_without_a_sensible_answer_is_refused_with_the_remedy(
    desk: Desk, words: dict[str, str], says: str
) -> None:
    refused = desk.ask(**words)

    assert refused.status_code == 422
    assert says in refused.text


def test_every_metric_is_named_and_names_itself() -> None:
    assert {name: str(metric(name)) for name in METRICS} == {name: name for name in METRICS}
    assert metric("tidegate_prompt_tokens_total") == METRICS["prompt_tokens"]
    assert metric("tidegate_gpu_utilization") == METRICS["gpu_utilization"]


def test_a_third_question_waits_for_one_of_two(now: datetime) -> None:
    entered, leave = threading.Barrier(3), threading.Event()

    class Slow:
        def query(self, question: Question, limits: Limits) -> History:
            entered.wait(10)
            leave.wait(10)
            return History(question, None, Layer.RAW, ())

    queries = Queries(Slow(), wait_seconds=0.05)  # type: ignore[arg-type]
    question = Question(METRICS["queue_depth"], now, now + EVERY)
    asking = [threading.Thread(target=queries.query, args=(question,)) for _ in range(2)]
    for thread in asking:
        thread.start()
    entered.wait(10)
    with pytest.raises(Transient, match="2 questions about the past"):
        queries.query(question)
    leave.set()
    for thread in asking:
        thread.join()
