"""The metrics page of a vLLM server with eight data parallel ranks: made of a capture, or of the demo's own page."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tidegate.demo.engine_model import Arrival, Engine, EngineSpec
from tidegate.demo.engine_page import Page

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = "vllm-0.32.0/load-b.prom"
RANKS = 8
_START = 1_800_000_000.0
_STANDING = re.compile(r"process_|python_|\S*_created|\S*_(perc|state|info)\b")


@dataclass(frozen=True, slots=True)
class Body:
    """A page, and where it is from."""

    text: str
    origin: str

    @property
    def samples(self) -> int:
        return sum(1 for line in self.text.split("\n") if line and line[0] != "#")


def captures() -> Path:
    """The folder of real pages, which need not be there."""
    return Path(os.environ.get("TIDEGATE_SHARED", ROOT / ".." / "shared")) / "captures"


def eight_ranks() -> Body:
    """Every series of rank 0 once for each rank, family by family, as one server writes them."""
    capture = captures() / CAPTURE
    if capture.is_file():
        return Body(_repeated(capture.read_text()), f"{CAPTURE}, {RANKS} ranks")
    engine = Engine(EngineSpec(), _START)
    for k in range(50):
        engine.accept(Arrival(k, _START + k, 900, 50 + k, 0, 640))
    engine.advance(_START + 30)
    return Body(_repeated(Page("demo-30b").render(engine)), f"the demo's page, {RANKS} ranks")


def _repeated(page: str) -> str:
    lines = []
    for line in page.split("\n"):
        times = RANKS if 'engine="0"' in line and not line.startswith("#") else 1
        lines += [line.replace('engine="0"', f'engine="{rank}"') for rank in range(times)]
    return "\n".join(lines)


class Growing:
    """A page whose counters grow from one scrape to the next, as a busy engine's do."""

    def __init__(self, body: Body) -> None:
        self._lines: list[tuple[str, float | None]] = []
        for line in body.text.split("\n"):
            head, _, value = line.rpartition(" ")
            moves = line and line[0] != "#" and not _STANDING.match(line)
            self._lines.append((f"{head} ", float(value)) if moves else (line, None))

    def page(self, scrape: int) -> bytes:
        """The page of the n-th scrape: 1 % more each time."""
        grown = 1 + scrape / 100
        return "\n".join(head if value is None else f"{head}{value * grown!r}" for head, value in self._lines).encode()
