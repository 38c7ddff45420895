"""A step-level model of one inference engine: continuous batching, chunked prefill, KV capacity with preemption.

Each step computes one token for every decoding sequence and prefill chunks up to a token budget:
`step = t0 + chunk * tp + decoding * td + decode_kv * tk + chunk * context * tq` (seconds; the form and its figures
are fitted to a 70B model at TP4 on H100-class GPUs). Prompts are admitted first come, first served, while the batch
and the KV cache have room; when decoding overflows the cache, the sequence admitted last is preempted and computed
again. The loop is plain Python on purpose: a step costs about a microsecond, and runs of steps that only decode are
taken in closed form.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from tidegate.simulate.tally import Tally

if TYPE_CHECKING:
    from tidegate.simulate.outcome import Verdicts

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one replica can do; times in seconds, sizes in tokens. The defaults are a 70B model at TP4."""

    t0: float = 0.018
    """A step of an empty batch: weights are read once."""
    prefill_token: float = 85e-6
    decode_sequence: float = 0.15e-3
    decode_kv_token: float = 50e-9
    attention: float = 1e-9
    """A chunk's token against one token of its context."""
    prefill_budget: int = 384
    batch_limit: int = 128
    kv_tokens: int = 450_000

    def isolated_prefill(self, tokens: int) -> float:
        """Seconds until the first token of a prompt that has the engine to itself."""
        steps = max(1, -(-tokens // self.prefill_budget))
        return steps * self.t0 + tokens * self.prefill_token + self.attention * tokens * tokens / 2


class Request:
    """One request on its way: when it came, how large it is, and what became of it."""

    __slots__ = ("at", "cached", "done", "end", "first", "left", "out", "owed", "prompt")

    def __init__(self, at: float, prompt: int, out: int, cached: int = 0) -> None:
        """Arrived at `at` with `prompt` tokens, of which `cached` need no computing, asking for `out` tokens."""
        self.at = at
        self.prompt = prompt
        self.out = out
        self.cached = min(cached, prompt - 1)
        self.first = _NEVER
        self.end = _NEVER
        self.restart(prompt, out, self.cached)

    def restart(self, tokens: int, owed: int, cached: int = 0) -> None:
        """Begin its prefill (anew): `tokens` to have in the cache before `owed` more are generated."""
        self.done = cached
        self.left = tokens - cached
        self.owed = owed

    @property
    def tpot(self) -> float:
        """Mean seconds per output token after the first; 0 for an answer of one token, infinite when unfinished."""
        if self.end == _NEVER:
            return _NEVER
        return (self.end - self.first) / (self.out - 1) if self.out > 1 else 0.0


class Engine:
    """One replica's queue, batch and cache. Time never runs backwards."""

    __slots__ = (
        "_cal",
        "_decode_kv",
        "_decoding",
        "_kv",
        "_serial",
        "_step",
        "finished",
        "outstanding",
        "queue",
        "t",
        "tally",
    )

    def __init__(self, calibration: Calibration, now: float) -> None:
        """Ready and empty at `now`."""
        self._cal = calibration
        self.t = now
        self.queue: deque[Request] = deque()
        self._decoding: list[tuple[int, int, Request]] = []
        self._step = 0
        self._serial = 0
        self._kv = 0
        self._decode_kv = 0
        self.outstanding = 0
        """Tokens still to be computed and to be generated: what a router balances by."""
        self.tally = Tally()
        self.finished: list[Request] = []
        """In the order in which they finished; the owner takes them away."""

    @property
    def waiting(self) -> int:
        """Requests of which nothing has been computed."""
        return len(self.queue) - self._prefilling()

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._decoding) + self._prefilling()

    @property
    def in_flight(self) -> int:
        """Requests in the batch and in the queue."""
        return len(self._decoding) + len(self.queue)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache in use, 0 to 1."""
        return min(1.0, self._kv / self._cal.kv_tokens)

    def _prefilling(self) -> int:
        return 1 if self.queue and self.queue[0].done > self.queue[0].cached else 0

    def add(self, request: Request, now: float) -> None:
        """Take a request into the queue; it is looked at when the step under way ends."""
        self.t = max(self.t, now)
        self.queue.append(request)
        self.outstanding += request.left + request.owed

    def take_all(self) -> list[Request]:
        """Give up every unfinished request, as a stop does."""
        lost = list(self.queue) + [request for _, _, request in self._decoding]
        self.queue.clear()
        self._decoding.clear()
        self._kv = self._decode_kv = self.outstanding = 0
        return lost

    def report(self, verdicts: Verdicts) -> None:
        """Hand over the requests that finished since the last report."""
        for request in self.finished:
            verdicts.judge(request)
        self.finished.clear()

    def advance(self, until: float) -> None:
        """Run steps until the clock reaches `until`; an engine without work does not move its clock."""
        while self.t < until:
            if self.queue and self._chunk_step():
                continue
            if not self._decoding:
                return
            self._decode_steps(until)

    def _decode_steps(self, until: float) -> None:
        """As many steps as only decode: to the next finished sequence, to a full cache or to `until`."""
        cal, batch = self._cal, len(self._decoding)
        step = cal.t0 + batch * cal.decode_sequence + self._decode_kv * cal.decode_kv_token
        steps = min(self._decoding[0][0] - self._step, int((until - self.t) / step) + 1)
        if self._kv + batch * steps > cal.kv_tokens:
            steps = max(1, min(steps, (cal.kv_tokens - self._kv) // batch))
        spent = steps * step + cal.decode_kv_token * batch * steps * (steps - 1) / 2
        self._finish_steps(steps, spent)

    def _chunk_step(self) -> bool:
        """One step with prefill; False when the head of the queue does not fit, so that only decoding can go on."""
        cal, queue, budget = self._cal, self.queue, self._cal.prefill_budget
        batch, attention, ended = len(self._decoding), 0, 0
        seats = cal.batch_limit - batch
        for request in queue:
            if request.done == request.cached and (ended >= seats or not self._admit(request)):
                break
            chunk = min(budget, request.left)
            request.done += chunk
            request.left -= chunk
            attention += chunk * request.done
            budget -= chunk
            ended += request.left == 0
            if not budget:
                break
        computed = cal.prefill_budget - budget
        if not computed:
            return False
        spent = cal.t0 + computed * cal.prefill_token + attention * cal.attention
        self.outstanding -= computed
        spent += batch * cal.decode_sequence + self._decode_kv * cal.decode_kv_token
        self._finish_steps(1, spent)
        for _ in range(ended):
            self._first_token(queue.popleft())
        return True

    def _admit(self, request: Request) -> bool:
        tokens = request.done + request.left
        if self._kv + tokens > self._cal.kv_tokens and self._kv:
            return False
        self._kv += tokens
        return True

    def _first_token(self, request: Request) -> None:
        tally, now = self.tally, self.t
        if request.first == _NEVER:
            request.first = now
            tally.first_token(now - request.at, request.prompt, request.cached)
        tally.generated += 1
        self.outstanding -= 1
        self._kv += 1
        request.owed -= 1
        if request.owed <= 0:
            self._kv -= request.done + 1
            self._leave(request)
            return
        self._decode_kv += request.done + 1
        self._serial += 1
        heappush(self._decoding, (self._step + request.owed, self._serial, request))

    def _finish_steps(self, steps: int, spent: float) -> None:
        decoding = self._decoding
        grown = len(decoding) * steps
        self.t += spent
        self._step += steps
        self._kv += grown
        self._decode_kv += grown
        self.tally.busy += spent
        self.tally.generated += grown
        self.outstanding -= grown
        while decoding and decoding[0][0] <= self._step:
            request = heappop(decoding)[2]
            held = request.done + 1 + request.owed
            self._kv -= held
            self._decode_kv -= held
            self._leave(request)
        while self._kv > self._cal.kv_tokens and len(decoding) > 1:
            self._preempt()

    def _leave(self, request: Request) -> None:
        request.end = self.t
        self.tally.finished_one(request.tpot)
        self.finished.append(request)

    def _preempt(self) -> None:
        """Send the sequence admitted last back to the head of the queue; what it had is computed again."""
        index = max(range(len(self._decoding)), key=lambda i: self._decoding[i][1])
        finish, _, request = self._decoding.pop(index)
        heapify(self._decoding)
        left = finish - self._step
        held = request.done + 1 + request.owed - left
        self._kv -= held
        self._decode_kv -= held
        request.restart(held, left)
        self.outstanding += held
        request.cached = 0
        if self._prefilling():  # the prompt under way keeps its place, it holds its share of the cache already
            self.queue.insert(1, request)
        else:
            self.queue.appendleft(request)
