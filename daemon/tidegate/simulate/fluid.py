"""The same engine as a fluid, for weeks: backlog in prefill tokens, running requests by Little's law.

In each span of a few seconds the replica computes prompts and decodes at once: a step lasts
`s = d / (1 - w)` with `d = t0 + running * (td + context * tk)` and `w` the share of time that prefill takes, up to
the full budget in every step; a request leaves after `out * s` in the mean. What a single request meets is spread over
the prompt's size (log-normal) and around the mean step. It is optimistic near the cliff: the queues that form within
a span are not in it. Check what it says in the step model (`engine.py`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.simulate.engine import Calibration, Engine, Request
from tidegate.simulate.outcome import Verdicts
from tidegate.simulate.tally import Tally
from tidegate.simulate.world import Block, Slo

SPAN = 3.0
"""Seconds of one step of the fluid."""
_PROMPT_SIGMA = 0.9
_PROMPT_POINTS = tuple(math.exp(_PROMPT_SIGMA * z - _PROMPT_SIGMA**2 / 2) for z in (-1.28, -0.52, 0.0, 0.52, 1.28, 2.2))
_PROMPT_WEIGHTS = (0.2, 0.2, 0.2, 0.2, 0.17, 0.03)
"""A log-normal prompt as a few sizes relative to its mean, and their shares."""
_TPOT_SIGMA = 0.07
_NOBODY = 0.02


@dataclass(slots=True)
class Inflow:
    """Requests of one span: how many, and their tokens in sum."""

    requests: float = 0.0
    prompt: float = 0.0
    cached: float = 0.0
    out: float = 0.0


class FluidEngine:
    """One replica as a fluid; the same face as `Engine`."""

    def __init__(self, calibration: Calibration, slo: Slo, now: float) -> None:
        """Ready and empty at `now`."""
        self._cal, self._slo = calibration, slo
        self.t = now
        self._queued = 0.0
        self._backlog = 0.0
        self._running = 0.0
        self._prompt, self._cached_share, self._out = 500.0, 0.0, 200.0
        self._tpot = calibration.t0
        self._judged: list[tuple[float, float, float, float, float]] = []
        self.tally = Tally()

    @property
    def waiting(self) -> int:
        """Requests of which nothing has been computed."""
        return int(self._queued)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return round(self._running)

    @property
    def in_flight(self) -> int:
        """Requests in the batch and in the queue; 0 when less than a trace is left."""
        total = self._running + self._queued
        return 0 if total < _NOBODY else max(1, round(total))

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return min(1.0, self._running * self._context / self._cal.kv_tokens)

    @property
    def _context(self) -> float:
        return self._prompt + self._out / 2

    def advance(self, until: float) -> None:
        """Go on without new requests."""
        while self.t < until - 1e-9 and self.in_flight:
            self.flow(Inflow(), min(SPAN, until - self.t))

    def take_all(self) -> list[Request]:
        """Give up every unfinished request, as a stop does."""
        lost = [Request(self.t, 1, 1) for _ in range(self.in_flight)]
        self._queued = self._backlog = self._running = 0.0
        return lost

    def report(self, verdicts: Verdicts) -> None:
        """Hand over what was judged since the last report."""
        for at, total, late, slow, missed in self._judged:
            verdicts.judge_many(at, total, late, slow, missed)
        self._judged.clear()

    def flow(self, new: Inflow, seconds: float) -> None:
        """One span: prefill what arrived and was left over, decode what runs."""
        cal = self._cal
        self._mix(new)
        decode = cal.t0 + self._running * (cal.decode_sequence + self._context * cal.decode_kv_token)
        token = cal.prefill_token + cal.attention * self._prompt / 2
        per_request = self._prompt * (1 - self._cached_share)
        before = self._backlog
        self._queued += new.requests
        self._backlog += new.prompt - new.cached
        full = decode + cal.prefill_budget * token
        seats = min(cal.batch_limit, cal.kv_tokens / self._context) - self._running
        seats += self._running * seconds / max(seconds, full * self._out)
        most = min(cal.prefill_budget * seconds / full, max(0.0, seats) * per_request)
        computed = min(self._backlog, most)
        step = min(full, decode / max(1e-3, 1 - computed * token / seconds))
        begun = min(self._queued, computed / per_request) if self._backlog > computed else self._queued
        self._backlog -= computed
        wait = (before + self._backlog) / 2 / max(most, 1.0) * seconds  # what the request in the middle finds
        self._judge(begun, wait, step)
        self._queued -= begun
        self._decode(begun, step, seconds, computed * token)

    def _mix(self, new: Inflow) -> None:
        """The mean request of those that are here, with the new ones."""
        if new.requests <= 0:
            return
        share = new.requests / (new.requests + self._running + self._queued)
        self._prompt += share * (new.prompt / new.requests - self._prompt)
        self._out += share * (new.out / new.requests - self._out)
        self._cached_share += share * (min(0.999, new.cached / new.prompt) - self._cached_share)

    def _decode(self, begun: float, step: float, seconds: float, prefill_seconds: float) -> None:
        tally, life = self.tally, max(step, step * self._out)
        at_work = self._running + begun * 0.5
        left = min(self._running + begun, at_work * (1 - math.exp(-seconds / life)) + begun * 0.5 * seconds / life)
        self._running += begun - left
        if self._running < _NOBODY:
            left, self._running = left + self._running, 0.0
        self._tpot += (1 - math.exp(-seconds / life)) * (step - self._tpot)
        tally.generated += at_work * seconds / step
        tally.add_finished(left, self._tpot)
        tally.busy += min(seconds, prefill_seconds + min(1.0, at_work) * (seconds - prefill_seconds))
        self.t += seconds

    def _judge(self, begun: float, wait: float, step: float) -> None:
        if begun <= 0:
            return
        slo, cal, late = self._slo, self._cal, 0.0
        for size, share in zip(_PROMPT_POINTS, _PROMPT_WEIGHTS, strict=True):
            prompt = self._prompt * size
            tokens = prompt * (1 - self._cached_share)
            first = wait + math.ceil(tokens / cal.prefill_budget) * step + tokens * cal.attention * tokens / 2
            limit = max(slo.ttft_s, slo.prefill_multiple * cal.isolated_prefill(int(prompt)))
            late += share * (first > limit)
            self.tally.add_first_tokens(begun * share, first)
        self.tally.add_prompts(begun * self._prompt, begun * self._prompt * self._cached_share)
        away = (math.log(slo.tpot_s) - math.log(self._tpot)) / _TPOT_SIGMA
        slow = 0.5 * math.erfc(away / math.sqrt(2))
        self._judged.append((self.t, begun, begun * late, begun * slow, begun * (late + slow - late * slow)))


AnyEngine = Engine | FluidEngine


class FluidGateway:
    """Shares each span's requests equally among the ready replicas; holds them while there is none."""

    def __init__(self, blocks: Iterator[Block], closes_at: float) -> None:
        """Nothing has arrived yet; what would come from `closes_at` on does not."""
        self._blocks, self._closes_at = blocks, closes_at
        self._spans: deque[Inflow] = deque()
        self._room = Inflow()
        self._t = 0.0
        self._begun = 0
        """Index of the first span that is still to come."""
        self.total = 0.0

    @property
    def arrived(self) -> int:
        """Requests so far."""
        return round(self.total)

    @property
    def waiting(self) -> int:
        """Requests that wait because no replica is ready."""
        return round(self._room.requests)

    def feed(self, ready: Sequence[AnyEngine], until: float) -> None:
        """Play the spans that end by `until`."""
        engines = [engine for engine in ready if isinstance(engine, FluidEngine)]
        while self._t + SPAN <= until + 1e-9:
            span = self._next() if self._t < self._closes_at else Inflow()
            self.total += span.requests
            self._t += SPAN
            whole = _sum(self._room, span)
            if not engines:
                self._room = whole
                continue
            self._room = Inflow()
            share = 1.0 / len(engines)
            each = Inflow(whole.requests * share, whole.prompt * share, whole.cached * share, whole.out * share)
            for engine in engines:
                engine.flow(each, SPAN)

    def left_over(self) -> Iterator[Request]:
        """The requests that nobody took."""
        yield from (Request(self._t, 1, 1) for _ in range(self.waiting))

    def _next(self) -> Inflow:
        while not self._spans:
            block = next(self._blocks, None)
            if block is None:
                return Inflow()
            self._bin(block)
        self._begun += 1
        return self._spans.popleft()

    def _bin(self, block: Block) -> None:
        """A block as spans; what of it falls into the span before its first is given to that one."""
        if not len(block.at):
            return
        index = np.maximum(0, (np.asarray(block.at) / SPAN).astype(int) - self._begun)
        sums = [np.bincount(index, weights=weights) for weights in (None, block.prompt, block.cached, block.out)]
        for requests, prompt, cached, out in zip(*sums, strict=True):
            self._spans.append(Inflow(float(requests), float(prompt), float(cached), float(out)))


def _sum(one: Inflow, other: Inflow) -> Inflow:
    if not one.requests:
        return other
    return Inflow(
        one.requests + other.requests, one.prompt + other.prompt, one.cached + other.cached, one.out + other.out
    )
