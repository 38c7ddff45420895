"""The view where no terminal is: one line an hour, and one for whatever happens. Turns what is new into lines."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.demo.live_view import Frame
from tidegate.link.messages import PoolShape


class PlainView:
    """Remembers what it has said."""

    def __init__(self) -> None:
        self._hour = -1
        self._decisions = 0
        self._messages = 0

    def lines(self, frame: Frame) -> Iterator[str]:
        """What there is to say that was not said before."""
        decisions = frame.fleet.decisions()
        for found in decisions[self._decisions :]:
            yield f"{found.at:%H:%M} {found.pool} {found.current} -> {found.target}: {found.reason}"
        self._decisions = len(decisions)
        for message in frame.deliveries[self._messages :]:
            belief = "signature right" if message.verified else message.why
            yield f"{message.at:%H:%M} webhook {message.type}, {belief}"
        self._messages = len(frame.deliveries)
        yield from self._hourly(frame)

    def _hourly(self, frame: Frame) -> Iterator[str]:
        """By the hours of the controller's ticks: its next decision is never told with an earlier time."""
        status = frame.fleet.last
        if status is None or status.tick_at is None:
            return
        hour = int((status.tick_at - frame.since).total_seconds() // 3600)
        if hour >= 0 and hour != self._hour:
            self._hour = hour
            pools = "; ".join(_pool(pool) for pool in status.pools)
            rate = frame.traffic[-1] if frame.traffic else 0.0
            yield f"{status.tick_at:%H:%M} {rate:.2f} requests/s, {frame.counts.lost} lost; {pools}"


def _pool(pool: PoolShape) -> str:
    figures = pool.figures
    parts = [f"{pool.name} {pool.ready} ready"]
    parts += [f"{pool.starting} starting"] if pool.starting else []
    parts += [f"{pool.leaving} leaving"] if pool.leaving else []
    parts += [f"queue {figures.queue_depth:.0f}"] if figures.queue_depth is not None else []
    parts += [f"hit rate {figures.kv_cache_hit_rate:.2f}"] if figures.kv_cache_hit_rate is not None else []
    if figures.tokens_per_gpu_per_second is not None:
        parts.append(f"{figures.tokens_per_gpu_per_second:.0f} tokens/GPU/s")
    return ", ".join(parts)
