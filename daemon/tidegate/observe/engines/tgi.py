"""TGI's dialect (text-generation-inference): no labels, counters without `_total`, histograms without a unit (seconds).

It has no time to first token, no KV cache figures and no inter-token latency; what could be pieced together from other
histograms is not what they mean, so it stays missing. Token sums move when a request ends. Sources:
`docs/source/reference/metrics.md` and `router/src` of TGI 3.
"""

from __future__ import annotations

from collections.abc import Set

from tidegate.model.reading import Counter, Distribution, EngineKind, Gauge
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page
from tidegate.observe.engines.table import Table, one_rank
from tidegate.observe.exposition import Exposition

TABLE = Table(
    gauges={
        Gauge.QUEUE_DEPTH: ("tgi_queue_size",),
        Gauge.RUNNING: ("tgi_batch_current_size",),
    },
    counters={
        Counter.REQUESTS: ("tgi_request_count", "tgi_request_count_total"),
        Counter.FINISHED: ("tgi_request_success", "tgi_request_success_total"),
        Counter.PROMPT_TOKENS: ("tgi_request_input_length_sum",),
        Counter.GENERATION_TOKENS: ("tgi_request_generated_tokens_sum",),
        # One a forward pass, prefill or decode: the only thing that moves while a request is running.
        Counter.STEPS: ("tgi_batch_inference_count", "tgi_batch_inference_count_total"),
    },
    histograms={
        Distribution.E2E: ("tgi_request_duration",),
        Distribution.QUEUE_TIME: ("tgi_request_queue_duration",),
        # A request's mean over its tokens.
        Distribution.TPOT: ("tgi_request_mean_time_per_token_duration",),
    },
)
FAILURES = ("tgi_request_failure", "tgi_request_failure_total")
"""By `err`; the family appears with the first failure."""
_GIVEN_UP = frozenset({"dropped"})
_TURNED_AWAY = frozenset({"overloaded"})


def recognises(present: Set[str]) -> bool:
    """Which histograms there are depends on what has happened."""
    return any(name.startswith("tgi_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that TGI says, in the one vocabulary."""
    page = Page(exposition, one_rank)
    draft = TABLE.read(page)
    name = next((name for name in FAILURES if name in exposition.samples), FAILURES[0])
    draft.counters |= {
        Counter.ABORTED: page.counter_where(name, "err", _GIVEN_UP.__contains__),
        Counter.ADMISSION_REJECTIONS: page.counter_where(name, "err", _TURNED_AWAY.__contains__),
        Counter.ERRORS: page.counter_where(name, "err", lambda why: why not in _GIVEN_UP),
    }
    return draft.content(page)


TGI = Dialect(EngineKind.TGI, "TGI", TABLE.names() | frozenset(FAILURES), frozenset(), recognises, read)
