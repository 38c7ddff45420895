"""The simulated engine keeps its books: every request is waiting, running or finished, exactly once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.demo.engine_model import Arrival, Engine, EngineSpec

START = 1_800_000_000.0

arrivals = st.builds(
    Arrival,
    id=st.just(0),
    at=st.floats(0, 300),
    prompt_tokens=st.integers(1, 4000),
    output_tokens=st.integers(1, 2500),
    prefix=st.integers(0, 5),
    prefix_tokens=st.integers(0, 3000),
)
specs = st.builds(
    EngineSpec,
    batch_limit=st.integers(1, 8),
    kv_tokens=st.integers(3000, 20_000),
    prefixes=st.integers(1, 4),
)


def numbered(found: list[Arrival]) -> list[Arrival]:
    ordered = sorted(found, key=lambda arrival: arrival.at)
    return [
        Arrival(k, START + a.at, a.prompt_tokens, a.output_tokens, a.prefix, a.prefix_tokens)
        for k, a in enumerate(ordered)
    ]


def counters(engine: Engine) -> list[float]:
    tally = engine.tally
    histograms = [tally.ttft, tally.itl, tally.tpot, tally.e2e, tally.queue_time, tally.iteration_tokens]
    return [
        *(tally.cache_queries, tally.cache_hits, tally.prompt_tokens, tally.cached_tokens, tally.busy_seconds),
        *(tally.finished_requests, engine.generated_tokens()),
        *(count for histogram in histograms for count in [*histogram.cumulative(), histogram.sum]),
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(arrivals, max_size=40), specs, st.lists(st.floats(0.05, 60), min_size=1, max_size=40))
def test_every_request_is_in_one_place_and_no_counter_falls(
    found: list[Arrival], spec: EngineSpec, steps: list[float]
) -> None:
    """Conservation at every look, and at the end every request has finished once."""
    engine, todo, now = Engine(spec, START), numbered(found), START
    finished: list[int] = []
    before = counters(engine)
    for arrival in todo:
        engine.accept(arrival)
    for step in [*steps, 1e6]:
        now += step
        engine.advance(now)
        finished += engine.finished
        engine.finished.clear()
        assert engine.running <= spec.batch_limit
        assert 0.0 <= engine.kv_usage <= 1.0
        assert len(finished) + engine.waiting + engine.running + engine.expected == len(todo)
        assert all(later >= earlier for later, earlier in zip(counters(engine), before, strict=True))
        before = counters(engine)
    assert sorted(finished) == [arrival.id for arrival in todo]
    assert engine.tally.prompt_tokens == sum(arrival.prompt_tokens for arrival in todo)
    assert engine.generated_tokens() == sum(arrival.output_tokens for arrival in todo)
    assert engine.tally.cache_hits == engine.tally.cached_tokens <= engine.tally.cache_queries


@settings(max_examples=30, deadline=None)
@given(st.lists(arrivals, max_size=30), specs, st.lists(st.floats(0.05, 60), max_size=20))
def test_how_often_it_is_looked_at_changes_nothing(found: list[Arrival], spec: EngineSpec, steps: list[float]) -> None:
    """The same arrivals give the same finishes, whether played in one go or in pieces."""
    whole, pieces = Engine(spec, START), Engine(spec, START)
    for arrival in numbered(found):
        whole.accept(arrival)
        pieces.accept(arrival)
    for step in steps:
        pieces.advance(START + step)
    whole.advance(START + 1e6)
    pieces.advance(START + 1e6)
    assert list(whole.finished) == list(pieces.finished)
    assert abs(whole.tally.e2e.sum - pieces.tally.e2e.sum) < 0.01


def run(arrivals: list[Arrival], **limits: int) -> Engine:
    engine = Engine(EngineSpec(**limits), START)
    for arrival in arrivals:
        engine.accept(arrival)
    engine.advance(START + 1e5)
    return engine


def test_one_request_takes_its_prefill_and_one_step_a_token() -> None:
    """900 tokens at 9000 a second, then 100 steps of 29 ms after the first token."""
    engine = run([Arrival(1, START + 5, 900, 101, 0, 0)])
    assert abs(engine.tally.ttft.sum - 0.11) < 1e-3
    assert abs(engine.tally.e2e.sum - (0.11 + 100 * 0.029)) < 1e-2
    assert engine.tally.itl.cumulative()[-1] == 100
    assert abs(engine.tally.busy_seconds - engine.tally.e2e.sum) < 1e-3


def test_a_larger_batch_decodes_slower() -> None:
    """Twenty requests together take longer each than one alone."""
    alone = run([Arrival(0, START, 100, 500, 0, 0)]).tally.e2e.sum
    together = run([Arrival(k, START, 100, 500, 0, 0) for k in range(20)]).tally.e2e.sum / 20
    assert together > 1.3 * alone


def test_a_shared_beginning_is_hit_the_second_time_in_whole_blocks() -> None:
    """The first request fills the cache; 1000 shared tokens are 62 blocks of 16."""
    engine = run([Arrival(k, START + 100 * k, 1500, 10, 7, 1000) for k in range(3)])
    assert engine.tally.cache_queries == 4500
    assert engine.tally.cache_hits == 2 * 992


def test_requests_beyond_the_batch_wait_in_order() -> None:
    """A batch of one serves three requests one after the other."""
    engine = Engine(EngineSpec(batch_limit=1), START)
    for k in range(3):
        engine.accept(Arrival(k, START, 100, 100, 0, 0))
    engine.advance(START + 1)
    assert (engine.running, engine.waiting) == (1, 2)
    engine.advance(START + 100)
    assert list(engine.finished) == [0, 1, 2]


def test_a_request_larger_than_the_cache_is_served_alone() -> None:
    """It must not block the queue for ever."""
    engine = run([Arrival(1, START, 5000, 10, 0, 0)], kv_tokens=1000)
    assert list(engine.finished) == [1]
