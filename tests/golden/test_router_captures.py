"""Pages of real routers: requests, errors, retries and the state of each worker; and no figure of an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.engine_pages import text

from tidegate.model.reading import Counter, Distribution, EngineReading, Gauge, Rank
from tidegate.model.window import EngineWindow, engine_window, gauge

_PREFILL, _DECODE = Rank("http://127.0.0.1:8110"), Rank("http://127.0.0.1:8111")


def read(shared: Path, name: str, seconds: float = 0.0) -> EngineReading:
    return text((shared / "captures" / f"{name}.prom").read_text(), seconds)


def total(reading: EngineReading, counter: Counter) -> float:
    return sum(value for (found, _), value in reading.counters.items() if found is counter)


def test_a_prefill_decode_pair_behind_vllm_router(shared: Path) -> None:
    """44 requests, of which two failed at the prefill worker; each request went to both workers."""
    first = read(shared, "vllm-router-0.1.17/load-a")
    second = read(shared, "vllm-router-0.1.17/load-b", 60.0)
    window = engine_window([first, second])

    assert isinstance(window, EngineWindow)
    assert (window.partial, window.progressing) == (False, True)
    assert window.increases == {
        Counter.REQUESTS: 40.0,
        Counter.ERRORS: 2.0,
        Counter.RETRIES: 0.0,
        Counter.WORKER_REQUESTS: 80.0,
        Counter.WORKER_ERRORS: 2.0,
    }
    assert second.counters[Counter.WORKER_ERRORS, _PREFILL] == 2.0
    assert second.counters[Counter.WORKER_REQUESTS, _DECODE] == 44.0
    assert gauge(second, Gauge.GATEWAY_QUEUE) == 0.0
    assert (gauge(second, Gauge.WORKERS), gauge(second, Gauge.WORKERS_UP)) == (2.0, 2.0)
    assert window.distributions[Distribution.E2E].count == 40.0
    assert (first.problems, second.problems) == ((), ())


def test_a_dead_worker_behind_vllm_router(shared: Path) -> None:
    """Known, and down: its requests were tried again, and given up."""
    found = read(shared, "vllm-router-0.1.17/worker-down")

    assert (gauge(found, Gauge.WORKERS), gauge(found, Gauge.WORKERS_UP)) == (1.0, 0.0)
    assert found.gauges[Gauge.WORKER_UP, _PREFILL] == 0.0
    assert (total(found, Counter.RETRIES), total(found, Counter.ERRORS)) == (16.0, 22.0)
    assert (total(found, Counter.REQUESTS), total(found, Counter.WORKER_REQUESTS)) == (21.0, 23.0)


def test_sglang_router(shared: Path) -> None:
    """A request for a model that nobody has is an error, and its name is nowhere."""
    found = read(shared, "sglang-router-0.3.2/after-load")

    assert (total(found, Counter.REQUESTS), total(found, Counter.ERRORS), total(found, Counter.RETRIES)) == (23, 2, 0)
    assert (total(found, Counter.WORKER_REQUESTS), total(found, Counter.WORKER_ERRORS)) == (23.0, 2.0)
    assert total(found, Counter.HTTP_ERRORS) == 0.0
    assert "no-such-model" not in repr(found)


def test_a_pair_behind_sglang_router(shared: Path) -> None:
    """80 requests; each worker had all of them."""
    found = read(shared, "sglang-router-0.3.2/pd-after")

    assert total(found, Counter.REQUESTS) == 80.0
    assert {value for (counter, _), value in found.counters.items() if counter is Counter.WORKER_REQUESTS} == {80.0}
    assert gauge(found, Gauge.WORKERS_UP) == 2.0


@pytest.mark.parametrize("name", ["vllm-router-0.1.17/load-b", "sglang-router-0.3.2/after-load"])
def test_no_engines_figure_comes_from_a_router(name: str, shared: Path) -> None:
    """Not even as a zero."""
    found = read(shared, name)
    engines = {Gauge.RUNNING, Gauge.QUEUE_DEPTH, Gauge.KV_CACHE_USAGE, Counter.FINISHED, Counter.GENERATION_TOKENS}

    assert engines.isdisjoint({key for key, _ in (*found.gauges, *found.counters)})
    assert found.kind is not None
    assert found.kind.is_gateway
