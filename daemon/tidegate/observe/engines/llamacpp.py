"""llama.cpp's dialect (`llama-server --metrics`): no labels, no histograms, and counters of six significant digits.

`prompt_tokens_total` counts what was computed: tokens from the cache have a counter of their own (since 2026) and are
not in it. `prompt_tokens_seconds`, `predicted_tokens_seconds` and `n_busy_slots_per_decode` are averages since somebody
last read the page, `n_tokens_max` is a watermark declared as a counter: none of them is read. `requests_processing`
ends at the number of slots, so the queue is `requests_deferred`. Source: `tools/server/server-task.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from tidegate.model.reading import Counter, EngineKind, EngineState, Gauge, Rank
from tidegate.observe.engines.dialect import Content, Dialect
from tidegate.observe.engines.page import Page, plus
from tidegate.observe.engines.table import Draft, Table, one_rank
from tidegate.observe.exposition import Exposition

TABLE = Table(
    gauges={
        Gauge.RUNNING: ("llamacpp_requests_processing",),
        Gauge.QUEUE_DEPTH: ("llamacpp_requests_deferred",),
    },
    counters={
        Counter.PROMPT_TOKENS: ("llamacpp_prompt_tokens_total",),
        Counter.CACHED_PROMPT_TOKENS: ("llamacpp_prompt_tokens_cached_total",),
        Counter.GENERATION_TOKENS: ("llamacpp_tokens_predicted_total",),
        # Tokens are counted when a request ends; this one moves in between.
        Counter.STEPS: ("llamacpp_n_decode_total",),
        Counter.PREFILL_SECONDS: ("llamacpp_prompt_seconds_total",),
        Counter.DECODE_SECONDS: ("llamacpp_tokens_predicted_seconds_total",),
    },
)
_DIGITS = 6
_COARSE = 1000.0
"""A counter that moves in larger steps says little about a minute."""
_TOKENS = (Counter.PROMPT_TOKENS, Counter.GENERATION_TOKENS)


def recognises(present: Set[str]) -> bool:
    """Any series of llama.cpp's own will do."""
    return any(name.startswith("llamacpp_") for name in present)


def read(exposition: Exposition) -> Content:
    """Everything that llama.cpp says, in the one vocabulary."""
    page = Page(exposition, one_rank)
    draft = TABLE.read(page)
    computed, cached = draft.counters[Counter.PROMPT_TOKENS], draft.counters[Counter.CACHED_PROMPT_TOKENS]
    draft.counters[Counter.COMPUTED_PROMPT_TOKENS] = computed
    draft.counters[Counter.DECODE_TOKENS] = draft.counters[Counter.GENERATION_TOKENS]
    if computed and cached:
        draft.counters |= {Counter.CACHE_QUERIES: plus(computed, cached), Counter.CACHE_HITS: cached}
    _doubt_coarse(page, draft)
    return draft.content(page, hints=("prompt tokens without those from the cache",) if computed else ())


def _doubt_coarse(page: Page, draft: Draft) -> None:
    """Say what rounding hides; steps that stand still for minutes prove nothing, so they are left out."""
    for counter in _TOKENS:
        step = _step(draft.counters[counter])
        if step >= _COARSE:
            page.notes.add(f"{counter.value} has six digits and moves by {step:,.0f}: rates are as coarse")
    if _step(draft.counters[Counter.STEPS]) >= _COARSE:
        draft.counters[Counter.STEPS] = {}


def _step(counter: Mapping[Rank, float]) -> float:
    """By how much a number of six significant digits can move at least."""
    largest = max(counter.values(), default=0.0)
    return 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 0.0


def refused(document: object) -> tuple[EngineState, str] | None:
    """What llama.cpp says, in the JSON of its errors, where it gives no metrics; None when it is not that."""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return _REFUSALS.get(code) if isinstance(code, int) else None


_REFUSALS = {
    501: (EngineState.DISABLED, "metrics are off: start llama.cpp with --metrics"),
    503: (EngineState.STARTING, "llama.cpp is loading its model"),
    400: (EngineState.MALFORMED, "llama.cpp in router mode wants a model's name in the address (?model=NAME)"),
}

LLAMA_CPP = Dialect(EngineKind.LLAMA_CPP, "llama.cpp", TABLE.names(), frozenset(), recognises, read)
