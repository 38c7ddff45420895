"""The three public trace formats, known by their columns, as traffic to play. Pure: a trace is its text."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from tidegate.simulate.log import BadTrace, Window, finite, is_log, windows_of_log
from tidegate.simulate.world import Block, Random, Traffic

BLOCK_TOKENS = 512
"""What one hash of the Mooncake trace stands for."""
Row = TypeVar("Row")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was recorded, times in seconds from its beginning; one of the two is empty."""

    kind: str
    """`azure`, `mooncake`, `servegen`, or `log`: one of ours."""
    requests: Block = field(default_factory=lambda: block_of(()))
    windows: tuple[Window, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it is."""
        if self.windows:
            return self.windows[-1].at + _widths(self.windows)[-1]
        return float(self.requests.at[-1]) if len(self.requests.at) else 0.0


def read_trace(lines: Iterable[str]) -> Trace:
    """Read a trace of any of the three kinds; raises `BadTrace`."""
    rest = iter(lines)
    first = next(rest, "").strip()
    if first.startswith("{"):
        lines = chain([first], rest)
        return Trace("log", windows=windows_of_log(lines)) if is_log(first) else _read_json_lines(lines)
    columns = [name.strip() for name in first.split(",")]
    for needed, read in _READERS:
        if needed <= set(columns):
            return read(csv.DictReader(rest, columns))
    raise BadTrace(
        f"line 1: neither of the known sets of columns ({'; '.join(','.join(sorted(each)) for each, _ in _READERS)}) "
        f"nor JSON lines with timestamp, input_length, output_length, nor a log of ours: {first[:80]!r}"
    )


def _read_azure(rows: Iterable[dict[str, str]]) -> Trace:
    def one(row: dict[str, str]) -> tuple[float, int, int, int]:
        # seven digits of a second: one more than the standard library reads before Python 3.11 on every platform
        at = datetime.fromisoformat(row["TIMESTAMP"].strip()[:26] + "+00:00").timestamp()
        return at, int(row["ContextTokens"]), int(row["GeneratedTokens"]), 0

    return Trace("azure", _block(_each(rows, one)))


def _read_servegen(rows: Iterable[dict[str, str]]) -> Trace:
    names = ("t_s", "rate_rps", "cv", "mean_input_tokens", "mean_output_tokens")
    windows = tuple(_each(rows, lambda row: Window(*(finite(row[name]) for name in names))))
    if not windows:
        raise BadTrace("the trace has no window")
    return Trace("servegen", windows=windows)


def _read_json_lines(lines: Iterable[str]) -> Trace:
    blocks: set[object] = set()

    def one(row: dict[str, Any]) -> tuple[float, int, int, int]:
        at, prompt, out = (finite(row[name]) for name in ("timestamp", "input_length", "output_length"))
        return at / 1000.0, int(prompt), int(out), min(int(prompt), _hits(row.get("hash_ids", ()), blocks))

    return Trace("mooncake", _block(_each((json.loads(line) for line in lines if line.strip()), one)))


def _hits(hashes: Iterable[object], seen: set[object]) -> int:
    """Tokens of the leading blocks that came before in the trace: what a cache without end would have."""
    tokens, leading = 0, True
    for each in hashes:
        leading = leading and each in seen
        tokens += BLOCK_TOKENS * leading
        seen.add(each)
    return tokens


_READERS: tuple[tuple[set[str], Callable[[Iterable[dict[str, str]]], Trace]], ...] = (
    ({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, _read_azure),
    ({"t_s", "rate_rps", "cv", "mean_input_tokens", "mean_output_tokens"}, _read_servegen),
)


def _each(rows: Iterable[Row], read: Callable[[Row], Read]) -> Iterator[Read]:
    number, rest = 1, iter(rows)
    while True:
        number += 1
        try:
            row = next(rest)
            yield read(row)
        except StopIteration:
            return
        except (KeyError, TypeError, ValueError) as error:
            raise BadTrace(f"entry {number - 1}: {type(error).__name__}: {error}") from error


def _block(rows: Iterable[tuple[float, int, int, int]]) -> Block:
    ordered = sorted(rows)
    if not ordered:
        raise BadTrace("the trace has no request")
    begin = ordered[0][0]
    return block_of([(at - begin, max(1, prompt), max(1, out), cached) for at, prompt, out, cached in ordered])


def block_of(rows: Sequence[tuple[float, int, int, int]]) -> Block:
    """Rows of (seconds, prompt, output and cached tokens) as a block."""
    table = np.array(rows, dtype=float).reshape(len(rows), 4)
    at, *sizes = table.T
    prompt, out, cached = (column.astype(int) for column in sizes)
    return Block(at, prompt, out, cached)


def uncached(traffic: Traffic) -> Traffic:
    """The same requests on engines without a prefix cache."""

    def without(random: Random) -> Iterator[Block]:
        for block in traffic(random):
            yield replace(block, cached=np.zeros_like(block.cached))

    return without


def overlaid(trace: Trace, times: int, shift: float) -> Traffic:
    """The requests played `times` over one another, each copy `shift` seconds after the one before."""
    block = trace.requests
    at = np.concatenate([block.at + copy * shift for copy in range(times)])
    order = np.argsort(at, kind="stable")
    sizes = (np.tile(column, times)[order] for column in (block.prompt, block.out, block.cached))
    return _played(Block(at[order], *sizes))


def thinned(trace: Trace, keep: int, of: int) -> Traffic:
    """`keep` of every `of` requests."""
    block = trace.requests
    kept = np.arange(len(block.at)) % of < keep
    return _played(Block(block.at[kept], block.prompt[kept], block.out[kept], block.cached[kept]))


def _played(block: Block) -> Traffic:
    def traffic(_: Random) -> Iterator[Block]:
        yield block

    return traffic


def drawn(windows: Sequence[Window], divisor: float, begin: float = 0.0, end: float = math.inf) -> Traffic:
    """Requests drawn from the windows between two times: gamma arrivals with each window's cv, its rate divided.

    Prompts are log-normal around the window's mean, answers exponential: the trace gives no more than the means.
    """
    widths = _widths(windows)

    def traffic(random: Random) -> Iterator[Block]:
        for window, width in zip(windows, widths, strict=True):
            if begin <= window.at < end:
                yield _draw(window, window.rate / divisor, width, begin, random)

    return traffic


def _widths(windows: Sequence[Window]) -> list[float]:
    """Each window lasts until the next; the last one as long as the one before."""
    gaps = [after.at - before.at for before, after in pairwise(windows)]
    return [*gaps, gaps[-1] if gaps else 600.0]


def _draw(window: Window, rate: float, width: float, begin: float, random: Random) -> Block:
    if rate <= 0:
        return block_of(())
    shape = 1.0 / max(window.cv, 0.05) ** 2
    expected = rate * width
    gaps = random.gamma(shape, 1.0 / (rate * shape), int(expected + 6 * max(window.cv, 1.0) * expected**0.5 + 50))
    at = np.cumsum(gaps)
    at = at[at < width] + (window.at - begin)
    sigma = 0.9
    prompt = random.lognormal(math.log(max(1.0, window.prompt)) - sigma * sigma / 2, sigma, len(at))
    out = random.exponential(max(1.0, window.out), len(at))
    whole = np.clip(prompt, 1, 120_000).astype(int)
    return Block(at, whole, np.clip(out, 1, 8_000).astype(int), np.zeros_like(whole))
