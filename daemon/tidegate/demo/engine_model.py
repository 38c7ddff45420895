"""A small queueing model of one inference engine, in played time: arrivals in, `advance(now)`, counters out.

Prefill serves one request at a time in order of arrival; every admitted request then decodes in one batch, and a
step takes longer the larger the batch is. Between two events the batch does not change, so the model jumps from
event to event instead of playing single steps. No clock, no randomness: the same arrivals give the same run.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from heapq import heappop, heappush

from tidegate.demo.engine_tally import Tally

_ROUNDING = 1e-3
"""Tokens. Unix seconds are floats with steps of a quarter microsecond: no end is ever missed for less than this."""
BLOCK_TOKENS = 16
"""The cache holds whole blocks: only full ones of a shared beginning can be hit."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when it arrives (unix seconds, played) and how much work it is."""

    id: int
    at: float
    prompt_tokens: int
    output_tokens: int
    prefix: int
    """Requests with the same number begin with the same text."""
    prefix_tokens: int
    """How much of the prompt that shared beginning is."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What the simulated engine can do; the defaults resemble a 30B model on one large GPU."""

    batch_limit: int = 24
    prefill_tokens_per_second: float = 9000.0
    step_seconds: float = 0.028
    """One decode step of a batch of one."""
    step_seconds_per_sequence: float = 0.001
    prefill_slowdown: float = 1.5
    """How much longer a decode step takes while a prompt is being computed beside it."""
    kv_tokens: int = 120_000
    prefixes: int = 256
    """How many different shared beginnings the prefix cache holds before the least used one is evicted."""


@dataclass(slots=True)
class _Sequence:
    """An admitted request: `begun` is the decode position at which its first token stood."""

    arrival: Arrival
    admitted: float
    cached: int
    first_token: float = 0.0
    begun: float = 0.0

    def reserved(self) -> int:
        return self.arrival.prompt_tokens + self.arrival.output_tokens


class Engine:
    """One engine's queue, batch and cache. Times are played unix seconds and never run backwards."""

    def __init__(self, spec: EngineSpec, now: float) -> None:
        self.tally = Tally(started=now)
        self.finished: deque[int] = deque()
        """Ids in the order in which they finished; the owner takes them away."""
        self._spec = spec
        self._now = now
        self._future: list[tuple[float, int, Arrival]] = []
        self._waiting: deque[Arrival] = deque()
        self._prefilling: _Sequence | None = None
        self._prefill_ends = 0.0
        self._decoding: list[tuple[float, int, _Sequence]] = []
        self._position = 0.0
        """Tokens that a sequence decoding since the start would have; all of the batch advance together."""
        self._begun_sum = 0.0
        self._reserved = 0
        self._prompt_tokens_held = 0
        self._prefixes: OrderedDict[int, int] = OrderedDict()

    @property
    def running(self) -> int:
        """Requests in the batch, the one in prefill included."""
        return len(self._decoding) + (self._prefilling is not None)

    @property
    def waiting(self) -> int:
        """Requests that have arrived and are not admitted."""
        return len(self._waiting)

    @property
    def expected(self) -> int:
        """Requests that were handed over ahead of their arrival."""
        return len(self._future)

    @property
    def in_flight(self) -> int:
        """Everything that was accepted and has not finished."""
        return self.running + self.waiting + self.expected

    @property
    def kv_usage(self) -> float:
        """The share of the KV cache that running requests hold, 0..1."""
        return min(1.0, (self._prompt_tokens_held + self._generated_by_batch()) / self._spec.kv_tokens)

    def generated_tokens(self) -> int:
        """Output tokens so far, those of unfinished requests included."""
        return self.tally.generated(self._generated_by_batch())

    def withdraw_expected(self) -> list[int]:
        """Give back the requests that have not arrived yet: an engine that stops never takes them."""
        found = sorted(arrival.id for _, _, arrival in self._future)
        self._future.clear()
        return found

    def accept(self, arrival: Arrival) -> None:
        """Take a request; one whose time has passed arrives now, and its wait counts from its own time."""
        heappush(self._future, (max(arrival.at, self._now), arrival.id, arrival))

    def advance(self, now: float) -> None:
        """Play every event up to `now`; an earlier `now` changes nothing."""
        while (event := self._next_event()) <= now:
            self._run_to(event)
            self._handle(event)
        if now > self._now:
            self._run_to(now)

    def _generated_by_batch(self) -> float:
        count = len(self._decoding)
        return count + count * self._position - self._begun_sum

    def _step(self) -> float:
        step = self._spec.step_seconds + self._spec.step_seconds_per_sequence * len(self._decoding)
        return step * self._spec.prefill_slowdown if self._prefilling else step

    def _next_event(self) -> float:
        arrival = self._future[0][0] if self._future else math.inf
        prefill = self._prefill_ends if self._prefilling else math.inf
        finish = math.inf
        if self._decoding:
            finish = self._now + max(0.0, self._decoding[0][0] - self._position) * self._step()
        return min(arrival, prefill, finish)

    def _run_to(self, moment: float) -> None:
        seconds = max(0.0, moment - self._now)
        self._now = max(self._now, moment)
        if not self.running:
            return
        step = self._step()
        if self._decoding:
            self._position += seconds / step
        self.tally.ran(seconds, step, len(self._decoding))

    def _handle(self, moment: float) -> None:
        while self._future and self._future[0][0] <= moment:
            self._waiting.append(heappop(self._future)[2])
        if self._prefilling and self._prefill_ends <= moment:
            self._end_prefill(self._prefilling)
        while self._decoding and self._decoding[0][0] <= self._position + _ROUNDING:
            self._finish(heappop(self._decoding)[2])
        self._admit()

    def _admit(self) -> None:
        if self._prefilling or not self._waiting or self.running >= self._spec.batch_limit:
            return
        arrival = self._waiting[0]
        needs = arrival.prompt_tokens + arrival.output_tokens
        if self._reserved + needs > self._spec.kv_tokens and self.running:
            return
        self._waiting.popleft()
        cached = self._look_up(arrival)
        self._prefilling = _Sequence(arrival, self._now, cached)
        self._prefill_ends = self._now + 0.01 + (arrival.prompt_tokens - cached) / self._spec.prefill_tokens_per_second
        self._reserved += needs
        self._prompt_tokens_held += arrival.prompt_tokens
        self.tally.admitted(arrival.prompt_tokens, cached)

    def _look_up(self, arrival: Arrival) -> int:
        """How many tokens of the prompt are in the cache; afterwards its shared beginning is."""
        shared = min(arrival.prefix_tokens, arrival.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        hit = min(self._prefixes.pop(arrival.prefix, 0), shared)
        self._prefixes[arrival.prefix] = max(hit, shared)
        if len(self._prefixes) > self._spec.prefixes:
            self._prefixes.popitem(last=False)
        return hit

    def _end_prefill(self, sequence: _Sequence) -> None:
        self._prefilling = None
        sequence.first_token, sequence.begun = self._now, self._position
        arrival = sequence.arrival
        self.tally.prefilled(arrival.prompt_tokens, sequence.cached, self._now - arrival.at)
        self._begun_sum += sequence.begun
        heappush(self._decoding, (sequence.begun + arrival.output_tokens - 1, arrival.id, sequence))

    def _finish(self, sequence: _Sequence) -> None:
        arrival = sequence.arrival
        self._begun_sum -= sequence.begun
        self._reserved -= sequence.reserved()
        self._prompt_tokens_held -= arrival.prompt_tokens
        if not self._decoding:
            self._begun_sum = 0.0  # nothing runs: no rounding error is carried on
            self._position = 0.0
        self.tally.finished(
            arrival.prompt_tokens,
            sequence.cached,
            arrival.output_tokens,
            (arrival.at, sequence.admitted, sequence.first_token, self._now),
        )
        self.finished.append(arrival.id)
