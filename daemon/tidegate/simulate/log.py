"""A production log of ours as windows of traffic: observations as `plan --stdio` reads them, or figures of pools.

Figures (`prompt_tokens_per_second`, `generation_tokens_per_second` of a pool at a tick, as exported) do not tell
requests; where `request_rate` is missing, prompts of a thousand tokens are assumed. Ticks with a missing rate are
left out: the window before holds on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ASSUMED_PROMPT = 1000.0


class BadTrace(ValueError):  # noqa: N818 - named for what it is
    """A trace that cannot be played; the message says which line is wrong and what was expected."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a windowed trace tells of one stretch of time."""

    at: float
    rate: float
    cv: float
    """Coefficient of variation of the times between arrivals."""
    prompt: float
    out: float


def is_log(line: str) -> bool:
    """Whether this first line is one of ours."""
    try:
        first = json.loads(line)
    except ValueError:
        return False
    return isinstance(first, dict) and ({"now", "pools"} <= set(first) or {"at", "pool"} <= set(first))


def windows_of_log(lines: Iterable[str]) -> tuple[Window, ...]:
    """One window a tick; raises `BadTrace` with the line."""
    flows: dict[float, list[float]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            at, flow = _observed(row) if "pools" in row else _figures(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadTrace(f"line {number}: {type(error).__name__}: {error}") from error
        if flow is not None:
            sums = flows.setdefault(at, [0.0, 0.0, 0.0])
            flows[at] = [total + new for total, new in zip(sums, flow, strict=True)]
    if not flows:
        raise BadTrace("the log has no tick with a known load")
    begin = min(flows)
    return tuple(_window(at - begin, *flows[at]) for at in sorted(flows))


def finite(value: object) -> float:
    """A number from 0 upwards; raises ValueError otherwise."""
    number = float(value)  # type: ignore[arg-type]  # what is no number raises, and is reported with its line
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{value} is not a number from 0 upwards")
    return number


def _window(at: float, rate: float, prompt: float, out: float) -> Window:
    return Window(at, rate, 1.0, prompt / rate if rate else 0.0, out / rate if rate else 0.0)


def _observed(row: Mapping[str, Any]) -> tuple[float, tuple[float, float, float] | None]:
    signals = [one["signals"] for pool in row["pools"].values() for one in pool["replicas"] if one.get("signals")]
    known = [each for each in signals if None not in (each.get("prompt_tps"), each.get("generation_tps"))]
    rate = row["gateway"].get("arrival_rps")
    if rate is None:
        rate = sum(each.get("request_rate") or 0.0 for each in known)
    if not known:
        return finite(row["now"]), None
    prompt, out = (sum(finite(each[name]) for each in known) for name in ("prompt_tps", "generation_tps"))
    return finite(row["now"]), (finite(rate), prompt, out)


def _figures(row: Mapping[str, Any]) -> tuple[float, tuple[float, float, float] | None]:
    at = row["at"]
    seconds = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else finite(at)
    prompt, out = row.get("prompt_tokens_per_second"), row.get("generation_tokens_per_second")
    if prompt is None or out is None:
        return seconds, None
    rate = row.get("request_rate")
    return seconds, (finite(prompt) / ASSUMED_PROMPT if rate is None else finite(rate), finite(prompt), finite(out))
