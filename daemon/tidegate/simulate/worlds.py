"""Worlds to plan in: the public traces scaled to a dozen replicas, and synthetic traffic of the kinds that hurt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tidegate.simulate.engine import Calibration
from tidegate.simulate.log import Window
from tidegate.simulate.traces import Trace, drawn, overlaid, thinned, uncached
from tidegate.simulate.world import Block, Random, Slo, Traffic, World

DAY = 86400.0
TAIL = 30.0
"""Seconds played after the last request of a trace."""
_WHOLE = frozenset({"azure", "mooncake"})
"""Traces of an hour."""
SMALL_MODEL = Calibration(0.008, 12e-6, 0.04e-3, 15e-9, 0.3e-9, 2048, 256, 400_000)
"""An 8B model on one GPU."""
HUGE_MODEL = Calibration(0.030, 240e-6, 0.25e-3, 60e-9, 2e-9, 512, 128, 700_000)
"""A 405B model on eight GPUs: prompts are slow."""


def of_trace(trace: Trace, days: tuple[float, float] | None = None, *, prefix_cache: bool = False) -> World:
    """A trace scaled so that 2 to 12 replicas of a 70B model are needed; `days` cuts a long one.

    A log of ours is played at its own rate. With `prefix_cache` the hits that a trace tells of need no computing.
    Raises ValueError where there is nothing to cut, or nothing is left.
    """
    if days and (trace.kind in _WHOLE or days[0] * DAY >= trace.seconds):
        lasts = f"it lasts {trace.seconds / DAY:.3g} days"
        raise ValueError(f"the trace cannot be cut to days {days[0]:g} to {days[1]:g}: {lasts}; leave the days out")
    if trace.kind == "azure":
        return World("azure", overlaid(trace, 4, 7.0), trace.seconds + TAIL, initial=8)
    if trace.kind == "mooncake":
        traffic = thinned(trace, 4, 5)
        traffic = traffic if prefix_cache else uncached(traffic)
        return World("mooncake", traffic, trace.seconds + TAIL, Slo(6.0, 0.100, 3.0), initial=8)
    begin, end = (day * DAY for day in days) if days else (0.0, trace.seconds)
    end = min(end, trace.seconds)
    name, divisor = ("m-large", 9.5) if trace.kind == "servegen" else ("log", 1.0)
    name = f"{name} days {begin / DAY:g} to {end / DAY:g}" if days else name
    return World(name, drawn(trace.windows, divisor, begin, end), end - begin, initial=6)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Log-normal sizes of prompts and answers: means in tokens, and how wide."""

    prompt: float
    out: float
    sigma: float = 0.8
    longest: int = 60_000
    hit_share: float = 0.0
    """Share of each prompt that is in the cache."""

    def draw(self, at: np.ndarray, random: Random) -> Block:
        """Sizes for these arrivals."""
        spread = self.sigma * self.sigma / 2
        prompt = random.lognormal(math.log(self.prompt) - spread, self.sigma, len(at))
        out = random.lognormal(math.log(self.out) - spread, self.sigma, len(at))
        whole = np.clip(prompt, 1, self.longest).astype(int)
        answers = np.clip(out, 1, 4000).astype(int)
        return Block(at, whole, answers, (whole * self.hit_share).astype(int))


CHAT = Sizes(900, 200)
CODE = Sizes(2000, 20, longest=8000)
RAG = Sizes(9500, 150, 0.6)


def varying(rate: Callable[[float], float], seconds: float, sizes: Sizes) -> Traffic:
    """Poisson arrivals whose rate is a function of the time."""

    def traffic(random: Random) -> Iterator[Block]:
        width = 10.0
        for index in range(int(seconds // width)):
            begin = index * width
            count = int(random.poisson(max(0.0, rate(begin + width / 2)) * width))
            yield sizes.draw(np.sort(random.uniform(begin, begin + width, count)), random)

    return traffic


def bursty_after_silence(seconds: float, sizes: Sizes, quiet: float = 150.0) -> Traffic:
    """Seconds of many requests after minutes of nearly none: code completion of a team that builds together."""

    def traffic(random: Random) -> Iterator[Block]:
        at, moment = [np.cumsum(random.exponential(1 / 3.0, int(seconds * 3)))], 0.0
        while moment < seconds:
            moment += float(random.exponential(quiet))
            size = int(min(2500.0, float(random.pareto(1.5)) * 60 + 40))
            at.append(moment + random.uniform(0, random.uniform(5, 40), size))
        together = np.sort(np.concatenate(at))
        yield sizes.draw(together[together < seconds], random)

    return traffic


def synthetic() -> dict[str, World]:
    """The synthetic worlds by name; each is deterministic for a seed."""
    two, three = 2 * 3600.0, 3 * 3600.0
    shapes: dict[str, World] = {}

    def add(name: str, rate: Callable[[float], float], seconds: float, sizes: Sizes = CHAT, initial: int = 2) -> None:
        shapes[name] = World(name, varying(rate, seconds, sizes), seconds, initial=initial)

    add("flat", lambda _: 14.0, three, initial=4)
    add("step", lambda t: 24.0 if 3600 <= t < 7200 else 6.0, three)
    add("ramp", lambda t: 5.0 + 25.0 * min(1.0, t / 7200), three)
    add("square", lambda t: 22.0 if t % 600 < 300 else 7.0, two, initial=6)
    add("spike", lambda t: 45.0 if 3600 <= t < 3660 else 10.0, two, initial=3)
    add("decay", lambda t: 6.0 + 24.0 * math.exp(-t / 1200), two, initial=8)
    add("silence", lambda t: 0.0 if 1800 <= t < 5400 else 16.0, two, initial=5)
    add("sine", lambda t: 16.0 - 12.0 * math.cos(2 * math.pi * t / 3600), three)
    add("rag", lambda t: 1.2 - 1.0 * math.cos(2 * math.pi * t / 3600), two, RAG)
    add("cached", lambda t: 16.0 - 10.0 * math.cos(2 * math.pi * t / 3600), two, replace(RAG, hit_share=0.85), 3)
    shapes["rag"] = replace(shapes["rag"], slo=Slo(5.0, 0.080))
    shapes["cached"] = replace(shapes["cached"], slo=Slo(5.0, 0.100))
    shapes["code"] = World("code", bursty_after_silence(two, CODE), two, initial=6)
    shapes["small-model"] = World(
        "small-model",
        varying(lambda t: 130.0 - 90.0 * math.cos(2 * math.pi * t / 3600), two, Sizes(900, 200)),
        two,
        Slo(0.5, 0.030),
        SMALL_MODEL,
        initial=3,
    )
    shapes["huge-model"] = World(
        "huge-model",
        varying(lambda t: 5.0 - 3.0 * math.cos(2 * math.pi * t / 3600), three, Sizes(1100, 300)),
        three,
        Slo(4.0, 0.120),
        HUGE_MODEL,
        initial=3,
    )
    return shapes


def small_morning() -> Trace:
    """A made-up morning of three hours in windows of five minutes, small enough for every test run.

    It swells to three times its rate and ebbs again, in bursts (cv 1.3 to 2.1) and with jitter from window to window.
    """
    windows = []
    for index in range(36):
        swell = 5.0 + 11.0 * math.sin(math.pi * (index + 0.5) / 36) ** 2
        jitter = 1.0 + 0.075 * ((index * 7) % 5 - 2)
        windows.append(Window(index * 300.0, swell * jitter, 1.3 + (index % 5) * 0.2, 700.0 + 60 * (index % 7), 180.0))
    return Trace("servegen", windows=tuple(windows))
