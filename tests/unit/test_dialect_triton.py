"""Triton: an ensemble counts each request several times, one name holds many figures, and times have no buckets."""

from __future__ import annotations

import pytest
from fakes.engine_pages import capture, counters, gauges, means, text

from tidegate.model.reading import Basis, Counter, Distribution, EngineKind, Gauge, Rank
from tidegate.model.window import EngineWindow, engine_window


def test_requests_are_the_ensembles_and_figures_the_engines() -> None:
    """100 requests came in, whatever the four models count together."""
    reading = capture("triton/ensemble.prom")

    assert (reading.kind, reading.model, reading.kv_usage_basis) == (EngineKind.TRITON, "tensorrt_llm", Basis.BLOCKS)
    assert reading.hints == ("requests of ensemble, engine figures of tensorrt_llm",)
    assert reading.problems == ()
    assert gauges(reading) == {Gauge.RUNNING: 8.0, Gauge.QUEUE_DEPTH: 3.0, Gauge.KV_CACHE_USAGE: 0.3}
    assert counters(reading) == {
        Counter.FINISHED: 100.0,
        Counter.ABORTED: 2.0,
        Counter.ADMISSION_REJECTIONS: 3.0,
        Counter.ERRORS: 5.0,
        Counter.PROMPT_TOKENS: 51000.0,
        Counter.GENERATION_TOKENS: 20000.0,
        Counter.STEPS: 4321.0,
        Counter.KV_TRANSFERS: 4.0,
    }


def test_times_are_means_in_seconds_without_quantiles() -> None:
    """Microseconds of all requests; no summary and no bucket is made up."""
    reading = capture("triton/ensemble.prom")

    assert means(reading) == pytest.approx({Distribution.E2E: 2.5, Distribution.QUEUE_TIME: 0.1})
    assert {len(histogram.bounds) for histogram in reading.histograms.values()} == {1}


def test_old_backends_have_no_waiting_and_no_fraction() -> None:
    """What is active and in no batch waits; used of all blocks."""
    reading = text(
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active"} 12\n'
        'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled"} 8\n'
        'nv_trt_llm_kv_cache_block_metrics{model="tensorrt_llm",kv_cache_block_type="used"} 30\n'
        'nv_trt_llm_kv_cache_block_metrics{model="tensorrt_llm",kv_cache_block_type="max"} 120\n'
    )

    assert gauges(reading) == {Gauge.RUNNING: 8.0, Gauge.QUEUE_DEPTH: 4.0, Gauge.KV_CACHE_USAGE: 0.25}


def test_old_servers_give_no_reason_for_a_failure() -> None:
    """Then every failure is an error, and nothing is said of aborts."""
    found = counters(text('nv_inference_request_failure{model="m"} 4\nnv_inference_request_success{model="m"} 9\n'))

    assert found == {Counter.FINISHED: 9.0, Counter.ERRORS: 4.0}


def test_a_model_of_another_backend() -> None:
    """The server's own queue, and no running requests: it exports none."""
    reading = text(
        'nv_inference_pending_request_count{model="bert",version="1"} 3\n'
        'nv_inference_pending_request_count{model="bert",version="2"} 2\n'
        'nv_inference_request_success{model="bert",version="1"} 10\n'
    )

    assert gauges(reading) == {Gauge.QUEUE_DEPTH: 5.0}
    assert reading.model == "bert"


def test_both_front_models_and_no_helper() -> None:
    """A request comes in through the ensemble or through BLS, never both."""
    models = {"ensemble": 30, "tensorrt_llm_bls": 12, "preprocessing": 42, "tensorrt_llm": 44, "postprocessing": 42}
    page = "".join(f'nv_inference_request_success{{model="{name}"}} {count}\n' for name, count in models.items())
    reading = text(page)

    assert counters(reading)[Counter.FINISHED] == 42.0
    assert reading.model == "tensorrt_llm"


def test_the_vllm_backend_passes_vllms_figures_on() -> None:
    """They are the engine's; Triton's own count of the same requests is not added."""
    reading = capture("triton/vllm-backend.prom")

    assert (reading.kind, reading.model) == (EngineKind.TRITON, "llama")
    assert reading.gauges[Gauge.RUNNING, Rank("0")] == 6.0
    assert reading.gauges[Gauge.QUEUE_DEPTH, Rank("0")] == 2.0
    assert counters(reading)[Counter.PROMPT_TOKENS] == 900.0
    assert "vLLM backend of Triton" in reading.hints


def test_a_long_answer_is_no_hanging_core() -> None:
    """Triton counts when a response is complete: only the backend's iterations prove that nothing moves."""
    page = (
        'nv_trt_llm_request_metrics{model="m",request_type="scheduled"} 1\nnv_inference_request_success{model="m"} 9\n'
    )
    stands = page + 'nv_trt_llm_general_metrics{model="m",general_type="iteration_counter"} 7\n'

    def progressing(page: str) -> bool:
        window = engine_window([text(page), text(page, 60.0)])
        assert isinstance(window, EngineWindow)
        return window.progressing

    assert progressing(page)
    assert not progressing(stands)
