"""What a simulated engine has counted since its start, in the units and buckets of vLLM 0.32."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

TTFT_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_TIME_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
LATENCY_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
ITERATION_BOUNDS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
REQUEST_TOKEN_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
MAX_OUTPUT_TOKENS = 2000
"""A request that reaches it finished by "length", every other by "stop"."""


class Buckets:
    """A histogram that takes fractions of observations and shows whole ones.

    A stretch of decoding is added at once (twelve steps and a half); what is shown is rounded down over cumulated
    counts, so buckets stay ordered and never fall.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0.0] * (len(bounds) + 1)

    def observe(self, value: float, times: float = 1.0) -> None:
        """Count a value (in the histogram's unit), `times` times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def cumulative(self) -> list[int]:
        """Whole cumulative counts, one a bound and the total last."""
        return [int(count + 1e-6) for count in accumulate(self._counts)]


def _latency() -> Buckets:
    return Buckets(LATENCY_BOUNDS)


def _tokens() -> Buckets:
    return Buckets(REQUEST_TOKEN_BOUNDS)


@dataclass(slots=True)
class Tally:
    """Counters and histograms since `started` (played unix seconds)."""

    started: float
    busy_seconds: float = 0.0
    """Played seconds in which anything ran: what NVML calls utilisation, before it is divided by time."""
    cache_queries: int = 0
    cache_hits: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    finished_by_stop: int = 0
    finished_by_length: int = 0
    ttft: Buckets = field(default_factory=lambda: Buckets(TTFT_BOUNDS))
    itl: Buckets = field(default_factory=lambda: Buckets(TOKEN_TIME_BOUNDS))
    tpot: Buckets = field(default_factory=lambda: Buckets(TOKEN_TIME_BOUNDS))
    e2e: Buckets = field(default_factory=_latency)
    queue_time: Buckets = field(default_factory=_latency)
    inference_time: Buckets = field(default_factory=_latency)
    prefill_time: Buckets = field(default_factory=_latency)
    decode_time: Buckets = field(default_factory=_latency)
    iteration_tokens: Buckets = field(default_factory=lambda: Buckets(ITERATION_BOUNDS))
    request_prompt_tokens: Buckets = field(default_factory=_tokens)
    request_generation_tokens: Buckets = field(default_factory=_tokens)
    request_computed_tokens: Buckets = field(default_factory=_tokens)
    _finished_output: int = 0
    _shown_output: int = 0

    @property
    def finished_requests(self) -> int:
        """Requests that ran to their end."""
        return self.finished_by_stop + self.finished_by_length

    def admitted(self, prompt_tokens: int, cached: int) -> None:
        """A request left the queue: its prompt was looked up in the prefix cache."""
        self.cache_queries += prompt_tokens
        self.cache_hits += cached

    def prefilled(self, prompt_tokens: int, cached: int, ttft_seconds: float) -> None:
        """A prompt was computed and its first token sent."""
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached
        self.ttft.observe(ttft_seconds)
        self.iteration_tokens.observe(float(prompt_tokens - cached + 1))

    def ran(self, seconds: float, step_seconds: float, batch: int) -> None:
        """A stretch of time in which `batch` sequences decoded, one step every `step_seconds`."""
        self.busy_seconds += seconds
        if batch:
            steps = seconds / step_seconds
            self.itl.observe(step_seconds, steps * batch)
            self.iteration_tokens.observe(float(batch), steps)

    def finished(self, prompt: int, cached: int, output: int, times: tuple[float, float, float, float]) -> None:
        """A request ended; `times` are its arrival, admission, first token and end."""
        arrived, admitted, first_token, ended = times
        self._finished_output += output
        if output >= MAX_OUTPUT_TOKENS:
            self.finished_by_length += 1
        else:
            self.finished_by_stop += 1
        self.e2e.observe(ended - arrived)
        self.queue_time.observe(admitted - arrived)
        self.inference_time.observe(ended - admitted)
        self.prefill_time.observe(first_token - admitted)
        self.decode_time.observe(ended - first_token)
        self.tpot.observe((ended - first_token) / (output - 1) if output > 1 else 0.0)
        self.request_generation_tokens.observe(float(output))
        self.request_prompt_tokens.observe(float(prompt))
        self.request_computed_tokens.observe(float(prompt - cached))

    def generated(self, by_batch: float) -> int:
        """Output tokens so far: of finished requests, and `by_batch` of those in the batch; it never falls."""
        self._shown_output = max(self._shown_output, self._finished_output + int(by_batch + 1e-6))
        return self._shown_output
