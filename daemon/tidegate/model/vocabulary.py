"""The words that all engines are read into: kinds, states, gauges, counters, distributions, and what a figure counts.

Every order here is a contract: positions and names stand in stored reports. A list may grow at its end, nowhere else.
"""

from __future__ import annotations

from enum import StrEnum


class EngineKind(StrEnum):
    """The serving engines, and the routers in front of them, whose dialects are read."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt-llm"
    TRITON = "triton"
    TGI = "tgi"
    LMDEPLOY = "lmdeploy"
    LLAMA_CPP = "llama.cpp"
    DYNAMO = "dynamo"
    VLLM_ROUTER = "vllm-router"
    SGLANG_ROUTER = "sglang-router"
    DYNAMO_FRONTEND = "dynamo-frontend"

    @property
    def is_gateway(self) -> bool:
        """True of what stands in front of engines: it serves nothing itself, so it is never a replica of a pool."""
        return self in (EngineKind.VLLM_ROUTER, EngineKind.SGLANG_ROUTER, EngineKind.DYNAMO_FRONTEND)

    @property
    def counts_at_end(self) -> bool:
        """True where tokens are counted when their request ends: that they stand still proves no hanging core."""
        return self in (
            EngineKind.TENSORRT_LLM,
            EngineKind.TRITON,
            EngineKind.TGI,
            EngineKind.LLAMA_CPP,
            EngineKind.DYNAMO,
        )


class EngineState(StrEnum):
    """What an engine's endpoint showed."""

    READY = "ready"
    STARTING = "starting"
    UNREACHABLE = "unreachable"
    HANGING = "hanging"
    STALLED = "stalled"
    DISABLED = "disabled"
    UNAUTHORIZED = "unauthorized"
    MALFORMED = "malformed"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    """A metrics page of something that is known, and not read here."""


class Basis(StrEnum):
    """What a share is counted in. Shares of different bases are never added up or compared."""

    TOKENS = "tokens"
    BLOCKS = "blocks"
    """KV cache blocks (pages): a block with one token in it counts like a full one."""
    LIFETIME = "lifetime"
    """The engine's own share since its start: no window can be taken of it."""


class GpuCountSource(StrEnum):
    """Who says how many GPUs an engine holds."""

    ENGINE = "engine"
    PROCESSES = "processes"
    """NVML's process list, matched with the process that listens on the engine's port."""
    CONFIGURATION = "configuration"


class TrafficClass(StrEnum):
    """Whose requests an engine serves: test traffic (load tests, probes) never enters production figures."""

    PRODUCTION = "production"
    TEST = "test"


class Gauge(StrEnum):
    """Engine gauges, as series names on the wire (per rank)."""

    RUNNING = "running"
    QUEUE_DEPTH = "queue_depth"
    """All that wait in the engine, the queues of prefill/decode separation and of grammars included."""
    KV_CACHE_USAGE = "kv_cache_usage"
    PREFILL_BOOTSTRAP_QUEUE = "prefill_bootstrap_queue"
    """Prefill side: wait for the handshake with a decode engine (called prealloc before SGLang 0.5.12)."""
    PREFILL_INFLIGHT_QUEUE = "prefill_inflight_queue"
    """Prefill side: computed, their KV cache is being sent. They wait for nobody, so they are not in the depth."""
    DECODE_PREALLOC_QUEUE = "decode_prealloc_queue"
    """Decode side: wait for room in the KV cache."""
    DECODE_TRANSFER_QUEUE = "decode_transfer_queue"
    """Decode side: wait for their KV cache to arrive."""
    DECODE_RECEIVE_QUEUE = "decode_receive_queue"
    """Decode side: their KV cache is being received into host memory."""
    GRAMMAR_QUEUE = "grammar_queue"
    """Wait for a grammar of structured output to be compiled."""
    GATEWAY_QUEUE = "gateway_queue"
    """Wait in a router or frontend, before any engine."""
    SLEEP_LEVEL = "sleep_level"
    """0 awake, 1 weights moved out of the GPU, 2 everything discarded."""
    CACHE_HIT_RATE = "cache_hit_rate"
    """The engine's own share of cache hits since its start; read where there is no counter to take a window of."""
    WORKERS = "workers"
    """Workers behind a router."""
    WORKERS_UP = "workers_up"
    """Those of them that the router holds for healthy."""
    WAITING_DEFERRED = "waiting_deferred"
    """Those in the depth that wait for something else than room, such as KV from another engine."""
    WORKER_UP = "worker_up"
    """Of a gateway, the worker's address as rank: 1 when the gateway holds it for healthy, else 0."""
    WORKER_RUNNING = "worker_running"
    """Requests that a gateway has at a worker now."""
    HELD = "held"
    """Requests that the engine's own web server holds open, whatever its schedulers say (they may lag behind)."""


class Counter(StrEnum):
    """Engine counters, as series names on the wire (per rank, cumulative since the engine's start)."""

    PROMPT_TOKENS = "prompt_tokens"
    CACHED_PROMPT_TOKENS = "cached_prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    CACHE_QUERIES = "cache_queries"
    """Prompt tokens looked up in the prefix cache. Tokens always; blocks have names of their own."""
    CACHE_HITS = "cache_hits"
    """Those that were found, in whatever tier the engine counts with them."""
    PREEMPTIONS = "preemptions"
    FINISHED = "finished"
    ABORTED = "aborted"
    ERRORS = "errors"
    RETRIES = "retries"
    STEPS = "steps"
    """Engine iterations: moves whenever the engine makes progress."""
    COMPUTED_PROMPT_TOKENS = "computed_prompt_tokens"
    """Prompt tokens that the prefill really computed."""
    CACHE_HITS_DEVICE = "cache_hits_device"
    """Hits by tier, in tokens: in the GPU's memory ..."""
    CACHE_HITS_HOST = "cache_hits_host"
    """... in the host's ..."""
    CACHE_HITS_DISK = "cache_hits_disk"
    """... on disk or in a storage service of the engine's own hierarchy ..."""
    CACHE_HITS_EXTERNAL = "cache_hits_external"
    """... and what came from outside through a KV connector."""
    EXTERNAL_CACHE_QUERIES = "external_cache_queries"
    """Tokens that a KV connector was asked for."""
    CACHE_BLOCK_QUERIES = "cache_block_queries"
    """Prefix cache lookups where the engine counts blocks; never added to those in tokens."""
    CACHE_BLOCK_HITS = "cache_block_hits"
    HTTP_ERRORS = "http_errors"
    """Answers with a status of 500 and above; failed requests are often in here again."""
    ADMISSION_REJECTIONS = "admission_rejections"
    """Requests turned away at the door."""
    REQUESTS = "requests"
    """Requests taken in, however they end."""
    KV_TRANSFERS = "kv_transfers"
    """KV caches of requests moved between prefill and decode engines."""
    KV_TRANSFER_FAILURES = "kv_transfer_failures"
    PREFILL_SECONDS = "prefill_seconds"
    """Time that requests spent in prefill."""
    DECODE_SECONDS = "decode_seconds"
    """Time that requests spent in decode, and ..."""
    DECODE_TOKENS = "decode_tokens"
    """... the tokens that they got for it (without those that a prefill makes)."""
    WORK = "work"
    """Whatever else only a working core moves, where it counts no steps: proof of progress, and no figure."""
    WORKER_REQUESTS = "worker_requests"
    """Requests that a gateway sent to a worker, whose address is the rank: one with a prefill and a decode worker
    counts at both."""
    WORKER_ERRORS = "worker_errors"
    """Those of them that failed there."""


class Distribution(StrEnum):
    """Engine histograms, as series names on the wire (seconds).

    One whose only bucket is +Inf is read where an engine gives a sum and a count: it has a mean and no quantile.
    """

    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE_TIME = "queue_time"
