"""A run of a host's buckets, worked out one after the other: the pure part between what is stored and what will be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.reading import EngineName, HostName
from tidegate.model.usage import BUCKET
from tidegate.store.buckets import Border, EngineBucket, Tail, fill, settled
from tidegate.store.samples import Looks


@dataclass(frozen=True, slots=True)
class Seen:
    """What a bucket is made of."""

    bucket: datetime
    looks: Looks
    before: datetime | None
    after: datetime | None
    """The host's nearest samples around the bucket."""
    kept: Mapping[EngineName, Tail | None]
    """The tails that its shares had when they were last worked out."""

    @property
    def engines(self) -> frozenset[EngineName]:
        """Those that were seen in it."""
        return frozenset(engine.engine for look in self.looks.readings for engine in look.engines)


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of a bucket."""

    worked: bool
    """False where there was nothing to work with: what is stored stands."""
    settled: bool
    """Only a late report can still change it."""
    shares: Mapping[EngineName, EngineBucket]
    moved: frozenset[EngineName]
    """Engines whose next bucket builds on something else now."""


_NOTHING = Worked(worked=False, settled=True, shares={}, moved=frozenset())


def work_out(seen: Seen, tails: dict[EngineName, Tail], now: datetime) -> Worked:
    """The shares of the next bucket of a run.

    `tails`: where each engine's next increase begins, as of the bucket's start; brought to its end.
    """
    if not seen.looks.moments:
        _hand_on(tails, seen.kept)
        return _NOTHING
    border = Border(seen.before, seen.after, {name: tails[name] for name in seen.engines if name in tails})
    shares = fill(seen.bucket, seen.looks.readings, border, now, seen.looks.moments)
    ends = {name: share.tail for name, share in shares.items()}
    moved = frozenset(name for name, tail in ends.items() if name not in seen.kept or seen.kept[name] != tail)
    _hand_on(tails, {**seen.kept, **ends})
    return Worked(worked=True, settled=settled(seen.bucket, border, now), shares=shares, moved=moved)


def _hand_on(tails: dict[EngineName, Tail], ends: Mapping[EngineName, Tail | None]) -> None:
    """An engine without counters in the bucket goes on from where it was."""
    tails.update({name: tail for name, tail in ends.items() if tail is not None})


def runs_of(buckets: Iterable[tuple[HostName, datetime]]) -> dict[HostName, Sequence[datetime]]:
    """Each host's oldest bucket, and those that follow it without a gap; they come host by host, the oldest first."""
    runs: dict[HostName, list[datetime]] = {}
    for host, bucket in buckets:
        run = runs.setdefault(host, [])
        if not run or bucket == run[-1] + BUCKET:
            run.append(bucket)
    return {**runs}
