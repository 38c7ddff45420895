"""What the replicas of a group are doing, as plain numbers: one sample a ready replica that speaks.

A replica is silent when it does not say how many requests it has, or moves tokens of neither kind that can be seen.
Silent ones are taken as their siblings: a bounded share of them, or half of all where a gateway says what arrives, for
that bounds what they can carry. Beyond that the group is blind: it may not shrink.
Latencies are evidence and no load: where they are missing a replica teaches nothing and is counted all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.decide.load import FIRST_WORDS, checked
from tidegate.model.fleet import NO_GATEWAY, Gateway, Idle, Replica, Signal, SignalName, Value
from tidegate.model.reading import Gap, Missing

READ = (
    SignalName.RUNNING,
    SignalName.WAITING,
    SignalName.PROMPT_TOKENS,
    SignalName.GENERATION_TOKENS,
    SignalName.KV_CACHE_USAGE,
    SignalName.REQUEST_RATE,
    SignalName.TTFT_P95,
    SignalName.TPOT_P95,
)
"""What the `slo` policy looks at."""
_ABSURD = 1e12
_WARM_UP_S = 60.0
_ROUNDING = 1e-9
_CROWDED = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One replica at one tick."""

    prompt: float
    """Prompt tokens per second that had to be worked on, those from the cache left out."""
    answer: float
    """Generated tokens per second."""
    running: float
    waiting: float
    kv: float
    """Share of the KV cache in use; 0 where it is not told."""
    rate: float
    """Requests per second; 0 where it is not told."""
    ttft: float | None
    tpot: float | None
    warm: bool
    """Ready for long enough to be typical."""

    @property
    def stuck(self) -> bool:
        """Requests wait and nothing moves."""
        return self.waiting > 0 and self.running <= 0 and self.prompt + self.answer <= 0


@dataclass(frozen=True, slots=True)
class Flow:
    """The whole group at one tick."""

    samples: tuple[Sample, ...]
    silent: int
    gaps: tuple[Gap, ...]
    blind: bool
    """More silent replicas than what is known can stand for."""
    queued: float = 0.0
    """Requests that wait at the gateway,"""
    told: bool = False
    """where it says so: only then can a service without replicas be called back."""
    arrivals: float | None = None
    """Requests per second at the gateway; None where it is not told."""
    fresh: int = 0
    """Silent ones that have only just become ready."""

    @property
    def ready(self) -> int:
        """Ready replicas, silent or not."""
        return len(self.samples) + self.silent

    @property
    def waiting(self) -> float:
        """Requests that wait anywhere but in replicas that do nothing about it; in silent ones as in their siblings."""
        found = sum(sample.waiting for sample in self.samples if not sample.stuck)
        return self.queued + (found * self.ready / len(self.samples) if found else 0.0)

    @property
    def busy(self) -> bool:
        """Anything runs, waits or comes."""
        moving = any(sample.running + sample.prompt + sample.answer > 0 for sample in self.samples)
        return moving or self.waiting > 0 or (self.arrivals or 0.0) > 0

    @property
    def stuck(self) -> bool:
        """Requests wait in replicas that do nothing, and nowhere else."""
        return self.waiting <= 0 and any(sample.stuck for sample in self.samples)

    def swamped(self, ttft_s: float, tpot_s: float) -> bool:
        """Requests queue, and half of the replicas miss the objective: these are not enough."""
        late = [sample for sample in self.samples if (sample.ttft or 0.0) > ttft_s or (sample.tpot or 0.0) > tpot_s]
        return bool(late) and 2 * len(late) >= len(self.samples) and self.waiting >= _CROWDED * self.ready

    def hopeless(self, ttft_s: float) -> bool:
        """Most replicas miss the first token's objective with nothing queued: each request takes that long."""
        late = [sample for sample in self.samples if sample.ttft and sample.ttft > ttft_s and sample.waiting <= 0]
        return 2 * len(late) > len(self.samples)


def flow_of(ready: Sequence[Replica], silent_share: float, now: datetime, gateway: Gateway = NO_GATEWAY) -> Flow:
    """Read the ready replicas of a group and its gateway."""
    samples: list[Sample] = []
    gaps: list[Gap] = []
    fresh = 0
    for replica in ready:
        found = _sample(replica, now)
        if isinstance(found, Sample):
            samples.append(found)
        else:
            gaps.append(found)
            fresh += now - replica.since < FIRST_WORDS
    queued, arrivals = _number(gateway.waiting), _number(gateway.arrival_rate)
    allowed = max(1, math.ceil(silent_share * len(ready) - _ROUNDING))
    if arrivals is not None:
        allowed = max(allowed, len(ready) // 2)
    blind = len(gaps) > allowed or (bool(gaps) and not samples)
    why = tuple(gap for gap, _ in Counter(gaps).most_common())
    return Flow(tuple(samples), len(gaps), why, blind, queued or 0.0, queued is not None, arrivals, fresh)


def _sample(replica: Replica, now: datetime) -> Sample | Gap:
    signals = {name: checked(replica.signal(name)) for name in READ}
    for name in (SignalName.RUNNING, SignalName.WAITING):
        if isinstance(found := signals[name], Missing):
            return found.why
    prompt, answer = (_read(signals[name]) for name in (SignalName.PROMPT_TOKENS, SignalName.GENERATION_TOKENS))
    if prompt is None and answer is None:
        found = signals[SignalName.PROMPT_TOKENS]
        return found.why if isinstance(found, Missing) else Gap.NOT_REPORTED
    cached = _number(replica.signal(SignalName.CACHED_TOKENS)) or 0.0
    return Sample(
        prompt=max(0.0, (prompt or 0.0) - cached),
        answer=answer or 0.0,
        running=_read(signals[SignalName.RUNNING]) or 0.0,
        waiting=_read(signals[SignalName.WAITING]) or 0.0,
        kv=min(1.0, _read(signals[SignalName.KV_CACHE_USAGE]) or 0.0),
        rate=_read(signals[SignalName.REQUEST_RATE]) or 0.0,
        ttft=_latency(signals[SignalName.TTFT_P95]),
        tpot=_latency(signals[SignalName.TPOT_P95]),
        warm=(now - replica.since).total_seconds() >= _WARM_UP_S,
    )


def _number(signal: Signal) -> float | None:
    return _read(checked(signal))


def _read(signal: Signal) -> float | None:
    match signal:
        case Value(value=value):
            return min(value, _ABSURD)
        case Idle():
            return 0.0
        case Missing():  # pragma: no branch - the last of them
            return None


def _latency(signal: Signal) -> float | None:
    """Of at least one request: nothing takes no time at all."""
    return signal.value if isinstance(signal, Value) and signal.value > 0 else None
