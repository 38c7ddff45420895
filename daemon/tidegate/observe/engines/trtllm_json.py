"""TensorRT-LLM's iteration statistics: the JSON array on `/metrics` of trtllm-serve.

A read takes the rows away from every other reader and waits up to two seconds when there are none; `[]` says that
nothing ran, that somebody else was faster, or that `enable_iter_perf_stats` is off, so it is no zero. What a row counts
of its own iteration is never added up, for only a sole reader would get all rows; read are the gauges of the newest row
and the totals that the engine keeps since its start. `cacheHitRate` is a share since the start, warm-up included: the
increases of `reusedBlocks` and `missedBlocks` tell it. Sources: `tensorrt_llm/serve/openai_server.py`,
`cpp/include/tensorrt_llm/executor/types.h`; TRT-LLM#4926, #13405, #12132, #13649.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.model.reading import Basis, Counter, EngineKind, Gap, Gauge, Missing, Number, Rank
from tidegate.observe.engines.dialect import Content, JsonDialect
from tidegate.observe.engines.samples import Notes

Row = Mapping[str, object]

_MARKS = frozenset({"iter", "iterLatencyMS", "numActiveRequests", "kvCacheStats", "inflightBatchingStats"})
_HINT = "iteration statistics: each read takes them from every other reader; /prometheus/metrics has more"
_NOTHING = "no iteration since the last read: idle, read by somebody else, or enable_iter_perf_stats is off"
_FIRST = Rank("0")
_TOO_MANY = 2**63
_MOST_RANKS = 1024


def recognises(document: object) -> bool:
    """An array of rows, or an empty one: nothing else answers so on a metrics page."""
    if not isinstance(document, list):
        return False
    return all(isinstance(row, dict) and not _MARKS.isdisjoint(row) for row in document)


def read(document: object) -> Content:
    """The newest row of each attention-DP rank."""
    notes = Notes()
    newest = _newest(document if isinstance(document, list) else [])
    gauges: dict[tuple[Gauge, Rank], Number] = {}
    counters: dict[tuple[Counter, Rank], float] = {}
    if not newest:
        notes.add(_NOTHING)
        silent = (Gauge.RUNNING, Gauge.QUEUE_DEPTH, Gauge.KV_CACHE_USAGE)
        gauges = {(gauge, _FIRST): Missing(Gap.NOT_REPORTED) for gauge in silent}
    for rank, row in newest.items():
        gauges |= {(gauge, rank): value for gauge, value in _gauges(row, notes).items()}
        if rank != _FIRST:  # the queue is rank 0's: in the rows of the others it is a copy, or stands still
            gauges.pop((Gauge.QUEUE_DEPTH, rank), None)
        counters |= {(counter, rank): value for counter, value in _counters(row, notes).items()}
    has_usage = any(gauge is Gauge.KV_CACHE_USAGE for gauge, _ in gauges)
    basis = Basis.BLOCKS if has_usage else None
    return Content(gauges, counters, {}, hints=(_HINT,), problems=notes.words(), kv_usage_basis=basis)


def _newest(rows: Sequence[object]) -> dict[Rank, Row]:
    """The last row of each rank: rows come in the order of iterations."""
    found: dict[Rank, Row] = {}
    for row in rows:
        if isinstance(row, dict):
            rank = row.get("attentionDpRank")
            known = isinstance(rank, int) and 0 <= rank < _MOST_RANKS
            found[Rank(str(rank)) if known else _FIRST] = row
    return found


def _gauges(row: Row, notes: Notes) -> dict[Gauge, Number]:
    cache = _part(row, "kvCacheStats")
    found: dict[Gauge, Number] = {}
    for gauge, key in ((Gauge.RUNNING, "numActiveRequests"), (Gauge.QUEUE_DEPTH, "numQueuedRequests")):
        if key in row:
            number = _number(row, key, notes)
            found[gauge] = Missing(Gap.MALFORMED) if number is None else number
    used, most = _number(cache, "usedNumBlocks", notes), _number(cache, "maxNumBlocks", notes)
    if used is not None and most:
        found[Gauge.KV_CACHE_USAGE] = used / most
    return found


def _counters(row: Row, notes: Notes) -> dict[Counter, float]:
    cache = _part(row, "kvCacheStats")
    found: dict[Counter, float] = {}
    steps = _number(row, "iter", notes)
    if steps is not None:
        found[Counter.STEPS] = steps
    reused, missed = _number(cache, "reusedBlocks", notes), _number(cache, "missedBlocks", notes)
    if reused is not None and missed is not None:
        found |= {Counter.CACHE_BLOCK_HITS: reused, Counter.CACHE_BLOCK_QUERIES: reused + missed}
    return found


def _part(row: Row, key: str) -> Row:
    part = row.get(key)
    return part if isinstance(part, dict) else {}


def _number(row: Row, key: str, notes: Notes) -> float | None:
    """The number under a key; None when there is none, and noted when it is no count."""
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _TOO_MANY:
        notes.add(f"{key} is no count")
        return None
    return float(value)


TENSORRT_LLM_JSON = JsonDialect(EngineKind.TENSORRT_LLM, "TensorRT-LLM", recognises, read)
