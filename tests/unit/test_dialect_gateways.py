"""Routers and Dynamo's two planes: what stands in front of engines is read, and counts nothing that they count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.engine_pages import capture, counters, gauges, text

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, EngineState, Gap, Gauge, Missing, Rank
from tidegate.model.window import EngineWindow, engine_window
from tidegate.observe.body import Origin
from tidegate.observe.engines.routers import MOST_WORKERS

R0 = Rank("0")


# Routers


def test_sglang_router() -> None:
    """The queue at its door, answers by class, workers by address without the password in it."""
    reading = capture("routers/sglang-queue.prom")
    one, two = Rank("http://10.0.0.1:8000"), Rank("http://10.0.0.2:8000")

    assert (reading.kind, reading.model, reading.problems) == (EngineKind.SGLANG_ROUTER, None, ())
    assert reading.gauges == {
        (Gauge.GATEWAY_QUEUE, R0): 12.0,
        (Gauge.WORKERS, R0): 2.0,
        (Gauge.WORKERS_UP, R0): 1.0,
        (Gauge.WORKER_UP, one): 1.0,
        (Gauge.WORKER_UP, two): 0.0,
    }
    assert reading.counters == {
        (Counter.REQUESTS, R0): 21.0,
        (Counter.ERRORS, R0): 5.0,
        (Counter.RETRIES, R0): 0.0,
        (Counter.HTTP_ERRORS, R0): 2.0,
        (Counter.ADMISSION_REJECTIONS, R0): 5.0,
        (Counter.WORKER_REQUESTS, one): 20.0,
        (Counter.WORKER_REQUESTS, two): 0.0,
        (Counter.WORKER_ERRORS, one): 2.0,
        (Counter.WORKER_ERRORS, two): 0.0,
    }


def test_vllm_router_counts_a_worker_once_and_a_failure_once() -> None:
    """A worker's ranks stand beside their sum; a failed prefill stands in two families."""
    reading = capture("routers/vllm-ranks.prom")
    running = {rank: value for (gauge, rank), value in reading.gauges.items() if gauge is Gauge.WORKER_RUNNING}

    assert reading.kind is EngineKind.VLLM_ROUTER
    assert reading.gauges[Gauge.GATEWAY_QUEUE, R0] == 6.0
    assert running == {"http://10.0.0.3:8000": 4.0}
    assert reading.counters[Counter.REQUESTS, R0] == 30.0
    assert reading.counters[Counter.ERRORS, R0] == 3.0
    assert reading.counters[Counter.WORKER_ERRORS, Rank("http://10.0.0.5:8000")] == 2.0


@pytest.mark.parametrize("page", ["smg_http_connections_active 1\n", "vllm_router_active_workers 1\n"])
def test_what_has_not_happened_yet_is_zero(page: str) -> None:
    """A router shows a family with the first event: a whole page without it says that there was none."""
    found = counters(text(page))

    assert {found[counter] for counter in (Counter.REQUESTS, Counter.ERRORS, Counter.RETRIES)} == {0.0}


def test_the_first_errors_are_counted() -> None:
    """The family was not there before, and the window is whole."""
    calm = 'vllm_router_requests_total{route="/v1"} 10\n'
    storm = calm + 'vllm_router_request_errors_total{route="/v1",error_type="no_available_workers"} 500\n'
    window = engine_window([text(calm), text(storm, 15.0)])

    assert isinstance(window, EngineWindow)
    assert (window.increases[Counter.ERRORS], window.partial, window.progressing) == (500.0, False, True)


def test_a_better_family_that_appears_later_is_no_restart() -> None:
    """The total of errors does not fall when the router begins to count them by type."""
    early = (
        'vllm_router_pd_requests_total{route="/v1"} 9\n'
        'vllm_router_pd_prefill_errors_total{worker="http://w:1"} 5\nvllm_router_worker_health{worker="http://w:1"} 1\n'
    )
    late = early + 'vllm_router_pd_errors_total{error_type="decode"} 1\n'
    window = engine_window([text(early), text(late, 15.0)])

    assert isinstance(window, EngineWindow)
    assert (window.increases[Counter.ERRORS], window.increases[Counter.REQUESTS], window.partial) == (0.0, 0.0, False)


def test_a_line_that_cannot_be_read_is_no_zero() -> None:
    """Nor does the total fall."""
    reading = text('smg_router_requests_total{model="m"} many\nsmg_worker_health{worker="http://w:1"} 1\n')

    assert (Counter.REQUESTS, R0) not in reading.counters
    assert reading.counters[Counter.ERRORS, R0] == 0.0


def test_the_order_of_lines_means_nothing() -> None:
    """It changes from look to look."""
    page = capture("routers/sglang-queue.prom")
    lines = [
        'smg_worker_cb_outcomes_total{worker="http://user:secret@10.0.0.1:8000",outcome="failure"} 2',
        'smg_worker_health{worker="http://10.0.0.2:8000"} 0',
        'smg_router_requests_total{model="other"} 21',
        'smg_worker_health{worker="http://user:secret@10.0.0.1:8000"} 1',
        'smg_worker_cb_outcomes_total{worker="http://user:secret@10.0.0.1:8000",outcome="success"} 18',
        "smg_admission_queue_depth 12",
        'smg_admission_queue_rejected_total{reason="full"} 5',
        'smg_http_responses_total{status_code="503",error_code=""} 2',
    ]
    forwards, backwards = (text("\n\n".join(order) + "\n\n") for order in (lines, lines[::-1]))

    assert forwards == backwards
    assert (forwards.gauges, forwards.counters) == (page.gauges, page.counters)


def test_models_that_clients_make_up_cost_nothing() -> None:
    """The label takes any string: a thousand of them are one figure, and none is named anywhere."""
    page = "".join(f'smg_router_requests_total{{model="evil-{number}"}} 1\n' for number in range(1000))
    reading = text(page)

    assert counters(reading) == {Counter.REQUESTS: 1000.0, Counter.ERRORS: 0.0, Counter.RETRIES: 0.0}
    assert (reading.model, reading.problems) == (None, ())
    assert "evil" not in repr(replace(reading, problems=()))


def test_workers_are_bounded() -> None:
    """By number and by length of name; how many there are is still told."""
    page = "".join(f'smg_worker_health{{worker="http://w{number:04}:1"}} 1\n' for number in range(300))
    reading = text(page + f'smg_worker_health{{worker="{"x" * 300}"}} 1\n')
    workers = [rank for gauge, rank in reading.gauges if gauge is Gauge.WORKER_UP]

    assert len(workers) == MOST_WORKERS
    assert workers[0] == "http://w0000:1"
    assert reading.gauges[Gauge.WORKERS, R0] == 301.0
    assert reading.problems == ("45 of 301 workers are left out: too many, or too long a name",)


def test_a_router_without_health_may_know_how_many_workers_it_has() -> None:
    """Then nothing is said of how many are up."""
    assert gauges(text('smg_worker_pool_size{model="unknown"} 3\n')) == {Gauge.WORKERS: 3.0}


def test_a_router_has_no_running_requests_and_no_tokens() -> None:
    """Its workers count them."""
    for name in ("routers/sglang-queue.prom", "routers/vllm-ranks.prom", "dynamo/frontend.prom"):
        reading = capture(name)
        seen = {key for key, _ in (*reading.gauges, *reading.counters)}
        counted = {Gauge.RUNNING, Gauge.QUEUE_DEPTH, Counter.PROMPT_TOKENS, Counter.GENERATION_TOKENS, Counter.FINISHED}
        assert seen.isdisjoint(counted)
        assert reading.kind is not None
        assert reading.kind.is_gateway


# Dynamo


@pytest.mark.parametrize("name", ["dynamo/frontend.prom", "dynamo/renamed-frontend.prom"])
def test_dynamos_frontend_is_a_gateway(name: str) -> None:
    """Under its own prefix and under one that `DYN_METRICS_PREFIX` chose."""
    reading = capture(name)

    assert (reading.kind, reading.model, reading.problems) == (EngineKind.DYNAMO_FRONTEND, "m", ())
    assert gauges(reading) == {Gauge.GATEWAY_QUEUE: 4.0}
    assert counters(reading) == {
        Counter.REQUESTS: 88.0,
        Counter.ERRORS: 5.0,
        Counter.ABORTED: 3.0,
        Counter.RETRIES: 2.0,
    }
    assert {which for which, _ in reading.histograms} == {Distribution.TTFT}


@pytest.mark.parametrize("name", ["dynamo/frontend.prom", "dynamo/renamed-frontend.prom"])
def test_dynamos_frontend_may_stand_for_its_workers(name: str) -> None:
    """Where the configuration says so: then it counts tokens, and what runs is what does not wait."""
    reading = capture(name, origin=Origin(kind=EngineKind.DYNAMO))

    assert reading.kind is EngineKind.DYNAMO
    assert gauges(reading) == {Gauge.QUEUE_DEPTH: 4.0, Gauge.RUNNING: 6.0}
    assert counters(reading) == {
        Counter.REQUESTS: 88.0,
        Counter.FINISHED: 80.0,
        Counter.ERRORS: 5.0,
        Counter.ABORTED: 3.0,
        Counter.RETRIES: 2.0,
        Counter.PROMPT_TOKENS: 8000.0,
        Counter.CACHED_PROMPT_TOKENS: 2000.0,
        Counter.CACHE_QUERIES: 8000.0,
        Counter.CACHE_HITS: 2000.0,
        Counter.GENERATION_TOKENS: 4000.0,
    }
    assert "the frontend in place of its workers" in reading.hints


def test_dynamos_worker_by_its_endpoint_for_tokens() -> None:
    """Its other endpoints are Dynamo's own calls; the usage is 0 to 1 in spite of its name."""
    reading = capture("dynamo/worker.prom")

    assert (reading.kind, reading.model, reading.kv_usage_basis) == (EngineKind.DYNAMO, "m", Basis.BLOCKS)
    assert gauges(reading) == {Gauge.RUNNING: 6.0, Gauge.KV_CACHE_USAGE: 0.4}
    assert counters(reading) == {Counter.FINISHED: 70.0, Counter.ERRORS: 2.0}
    assert reading.histograms[Distribution.E2E, R0].count == 70.0


def test_a_worker_that_passes_its_engine_on_is_that_engine() -> None:
    """The engine's own figures, once."""
    reading = capture("dynamo/vllm-worker.prom")

    assert reading.kind is EngineKind.VLLM
    assert gauges(reading)[Gauge.RUNNING] == 5.0
    assert counters(reading) == {Counter.PROMPT_TOKENS: 700.0}


# The kind that the configuration names


def test_a_page_that_is_not_what_it_was_declared_to_be() -> None:
    """Named, with what it is."""
    reading = text("vllm:num_requests_running 3\n", origin=Origin(kind=EngineKind.SGLANG))

    assert reading.state is EngineState.MALFORMED
    assert reading.problems == ("declared as SGLang, and it is vLLM: correct the engine's kind",)
    assert text("node_load1 0.5\n", origin=Origin(kind=EngineKind.TGI)).state is EngineState.MALFORMED
    assert text("python_info 1\n", origin=Origin(kind=EngineKind.VLLM)).state is EngineState.DISABLED


def test_a_declared_kind_reads_what_nothing_tells() -> None:
    """TensorRT-LLM's families without a prefix, behind a proxy at a path of its own."""
    page = "num_requests_running 3\nnum_requests_waiting NaN\n"
    reading = text(page, origin=Origin(path="/engine", kind=EngineKind.TENSORRT_LLM))

    assert gauges(reading) == {Gauge.RUNNING: 3.0, Gauge.QUEUE_DEPTH: Missing(Gap.NOT_FINITE)}
