"""Counter increases of one host in one five-minute bucket: the pure part of the usage roll-up.

The increase between two consecutive samples belongs to the bucket of the later one, so that buckets add up to the
counters whatever their borders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from tidegate.model.reading import Counter, EngineName, EngineReading, EngineState, HostReading, Rank
from tidegate.model.usage import BUCKET, bucket_of
from tidegate.model.window import EngineWindow, engine_window

HOLE = timedelta(seconds=90)
"""Samples of a host further apart than this leave a hole: six samples at the default interval."""
_SPACINGS = 3
_WIDEST_HOLE = 2 * BUCKET
"""A host that samples rarely leaves a hole at three of its own spacings, but never beyond this."""
COUNTERS = (
    Counter.PROMPT_TOKENS,
    Counter.CACHED_PROMPT_TOKENS,
    Counter.GENERATION_TOKENS,
    Counter.CACHE_QUERIES,
    Counter.CACHE_HITS,
)


@dataclass(frozen=True, slots=True)
class Tail:
    """The last sample of an engine that carried counters: where the next increase begins."""

    at: datetime
    started: float | None
    counters: Mapping[tuple[Counter, Rank], float]


@dataclass(frozen=True, slots=True)
class EngineBucket:
    """One engine's share of one bucket; a counter that is absent was not exported."""

    increases: Mapping[Counter, float]
    partial: bool
    tail: Tail | None


@dataclass(frozen=True, slots=True)
class Border:
    """What lies around a bucket: the host's nearest sample on either side, and each engine's last counters."""

    before: datetime | None
    after: datetime | None
    tails: Mapping[EngineName, Tail]


def touched(at: datetime) -> frozenset[datetime]:
    """The buckets whose figures a sample at this moment can change: its own, and a neighbour's edge."""
    bucket = bucket_of(at)
    found = [bucket]
    if at - bucket < HOLE:
        found.append(bucket - BUCKET)
    if at - bucket >= BUCKET - HOLE:
        found.append(bucket + BUCKET)
    return frozenset(found)


def closing(bucket: datetime) -> datetime:
    """When the bucket is over even if no later sample says so."""
    return bucket + BUCKET + HOLE


def settled(bucket: datetime, border: Border, now: datetime) -> bool:
    """True when only a late report can still change the bucket."""
    return border.after is not None or now >= closing(bucket)


def fill(
    bucket: datetime,
    samples: Sequence[HostReading],
    border: Border,
    now: datetime,
    moments: Sequence[datetime] | None = None,
) -> dict[EngineName, EngineBucket]:
    """Every engine's increases in the bucket, from the host's samples inside it in time order.

    `moments`: of all samples, where those that say nothing new have been left out of `samples`.
    """
    holed = _holed(bucket, [sample.at for sample in samples] if moments is None else list(moments), border, now)
    names = dict.fromkeys(engine.engine for sample in samples for engine in sample.engines)
    return {name: _engine_bucket(name, samples, border, holed=holed) for name in names}


def _holed(bucket: datetime, moments: list[datetime], border: Border, now: datetime) -> bool:
    if border.before is not None:
        moments.insert(0, border.before)
    if border.after is not None:
        moments.append(border.after)
    elif now >= closing(bucket):
        moments.append(bucket + BUCKET)
    spacings = [later - earlier for earlier, later in pairwise(moments)]
    hole = max(HOLE, min(_WIDEST_HOLE, _SPACINGS * min(spacings, default=HOLE)))
    return any(spacing > hole for spacing in spacings)


def _engine_bucket(name: EngineName, samples: Sequence[HostReading], border: Border, *, holed: bool) -> EngineBucket:
    seen = [_slim(sample.at, engine) for sample in samples for engine in sample.engines if engine.engine == name]
    good = [engine for engine in seen if engine.counters]
    tail = border.tails.get(name)
    if not good:
        return EngineBucket({}, holed or _lost(seen, known=tail is not None), None)
    first = _tail_reading(name, tail) if tail else _birth(good[0], samples, border.before)
    window = engine_window([first, *good] if first else good)
    increases = dict(window.increases) if isinstance(window, EngineWindow) else {}
    fell = isinstance(window, EngineWindow) and window.partial
    last = good[-1]
    return EngineBucket(
        {counter: increases[counter] for counter in COUNTERS if counter in increases},
        holed or fell or _lost(seen, known=tail is not None),
        Tail(last.at, last.started, last.counters),
    )


def _slim(at: datetime, engine: EngineReading) -> EngineReading:
    """The reading at the host's sampling time, with the counters that usage is made of."""
    counters = {key: total for key, total in engine.counters.items() if key[0] in COUNTERS}
    return EngineReading(
        engine.engine, engine.kind, engine.state, at, counters=counters, started=engine.started, summed=engine.summed
    )


def _tail_reading(name: EngineName, tail: Tail) -> EngineReading:
    return EngineReading(name, None, EngineState.READY, tail.at, counters=tail.counters, started=tail.started)


def _birth(first: EngineReading, samples: Sequence[HostReading], before: datetime | None) -> EngineReading | None:
    """A start at zero for an engine that came to life after the sample before its first; else None.

    Without it the work between a replica's start and its first scrape would be nobody's. An engine older than
    our watch brings a past that is not this bucket's.
    """
    earlier = [sample.at for sample in samples if sample.at < first.at]
    watched = earlier[-1] if earlier else before
    if first.started is None or watched is None or first.started < watched.timestamp():
        return None
    zeros = dict.fromkeys(first.counters, 0.0)
    return replace(first, at=watched, counters=zeros)


def _lost(seen: Iterable[EngineReading], *, known: bool) -> bool:
    """True when an engine that had been read could not be read: what it did meanwhile may be lost."""
    for engine in seen:
        if engine.counters:
            known = True
        elif known and engine.state is not EngineState.STARTING:
            return True
    return False
