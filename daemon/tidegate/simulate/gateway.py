"""The gateway: takes requests as they come, holds them while no replica is ready, balances by outstanding tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from tidegate.simulate.engine import Engine, Request
from tidegate.simulate.fluid import AnyEngine
from tidegate.simulate.world import Block


class Gateway:
    """Feeds the engines with a run's requests."""

    def __init__(self, blocks: Iterator[Block], closes_at: float) -> None:
        """Nothing has arrived yet; what would come from `closes_at` on does not."""
        self._blocks, self._closes_at = blocks, closes_at
        self._at: list[float] = []
        self._sizes: list[tuple[int, int, int]] = []
        self._next = 0
        self._room: deque[Request] = deque()
        self.arrived = 0

    @property
    def waiting(self) -> int:
        """Requests that wait because no replica is ready."""
        return len(self._room)

    def feed(self, ready: Sequence[AnyEngine], until: float) -> None:
        """Give every request that arrives before `until` to the engine with the fewest outstanding tokens."""
        engines = [engine for engine in ready if isinstance(engine, Engine)]
        if engines:
            while self._room:
                request = self._room.popleft()
                min(engines, key=_outstanding).add(request, max(request.at, min(engine.t for engine in engines)))
        while (at := self._peek()) < until:
            self._arrive(engines, at)
        for engine in engines:
            engine.advance(until)

    def left_over(self) -> Iterator[Request]:
        """The requests that nobody took."""
        yield from self._room
        self._room.clear()

    def _peek(self) -> float:
        while self._next >= len(self._at):
            block = next(self._blocks, None)
            if block is None:
                return float("inf")
            self._at, self._next = block.at.tolist(), 0
            sizes = (block.prompt.tolist(), block.out.tolist(), block.cached.tolist())
            self._sizes = list(zip(*sizes, strict=True))
        at = self._at[self._next]
        return at if at < self._closes_at else float("inf")

    def _arrive(self, engines: list[Engine], at: float) -> None:
        request = Request(at, *self._sizes[self._next])
        self._next += 1
        self.arrived += 1
        if not engines:
            self._room.append(request)
            return
        best = engines[0]
        for engine in engines:
            if engine.t < at:
                engine.advance(at)
            if engine.outstanding < best.outstanding:
                best = engine
        best.add(request, at)


def _outstanding(engine: Engine) -> int:
    return engine.outstanding
