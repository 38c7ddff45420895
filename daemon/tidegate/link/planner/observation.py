"""One observation: a line of JSON into frozen values, or every problem with its place. Pure.

A signal that is null, not finite, negative or no number at all is missing, with the reason: it never ends the line,
so that one broken exporter stops nobody else's plan. What the structure rests on (names, bounds, states, times) must
be right, or the line is refused as a whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from tidegate.link.planner.checks import EPOCH, Findings, amount, first_few, moment, number, shown, table, text, whole
from tidegate.model.fleet import PoolKind, PoolRole
from tidegate.model.missing import Gap, Missing, Number

T = TypeVar("T")
_SILENT = Missing(Gap.NOT_REPORTED)

MOST_REPLICAS, MOST_GPUS, MOST_MONEY, LONGEST_NAME = 10_000, 1_000_000, 1e9, 253
STATES = ("starting", "ready", "draining", "failed")
SIGNALS = (
    "running",
    "waiting",
    "kv_usage",
    "prompt_tps",
    "generation_tps",
    "ttft_p95_s",
    "tpot_p95_s",
    "request_rate",
    "cached_tps",
    "gpu_utilization",
)
_TOP = ("now", "slo", "gateway", "budget", "pools")
_POOL = ("kind", "role", "min", "max", "gpus_per_replica", "price_per_hour", "ratio", "replicas")
_REPLICA = ("id", "state", "since", "why", "signals")
_LONGEST_WHY = 4096


class Refused(ValueError):  # noqa: N818 - named for what happens
    """A line that is no observation; the message names every place that is wrong."""


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """One replica as its owner reports it."""

    id: str | int
    """As it was given: the answer names it the same way."""
    state: str
    since: datetime
    why: str
    signals: Mapping[str, Number]
    """Every one of `SIGNALS`, a number or why it is missing."""


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """One pool: its replicas, and the limits that hold where no configuration says otherwise."""

    name: str
    replicas: tuple[ObservedReplica, ...]
    kind: PoolKind | None = None
    role: PoolRole = PoolRole.MIXED
    minimum: int | None = None
    maximum: int | None = None
    gpus_per_replica: int | None = None
    price_per_hour: float | None = None
    """Of one replica."""
    ratio: tuple[float, float] | None = None
    """Prefill replicas for each decode replica, at least and at most."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that one line says."""

    now: datetime
    pools: tuple[ObservedPool, ...]
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    waiting: Number = _SILENT
    """Requests that wait in the gateway, before any replica."""
    arrival_rps: Number = _SILENT
    budget_gpus: int | None = None
    budget_per_hour: float | None = None
    notes: tuple[str, ...] = field(default=())
    """What was passed over, in words."""


def read_observation(line: bytes, *, bare: bool) -> Observation:
    """The observation on a line; raises Refused. `bare`: no configuration stands beside it, so limits are required."""
    found = Findings()
    data = table(_json(line), "the line", _TOP, found)
    now = moment(data["now"], "now", found) if _has(data, "now", "", found) else None
    pools = _pools(data, found, bare=bare)
    ttft, tpot = _slo(data.get("slo"), found, bare=bare)
    gateway = _part(data, "gateway", ("waiting", "arrival_rps"), found)
    budget = _part(data, "budget", ("gpus", "per_hour"), found)
    gpus, per_hour = budget.get("gpus"), budget.get("per_hour")
    observation = Observation(
        now=now or EPOCH,
        pools=pools,
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        waiting=_signal(gateway.get("waiting"), "gateway.waiting", found),
        arrival_rps=_signal(gateway.get("arrival_rps"), "gateway.arrival_rps", found),
        budget_gpus=None if gpus is None else whole(gpus, "budget.gpus", (0, MOST_GPUS), found),
        budget_per_hour=None if per_hour is None else amount(per_hour, "budget.per_hour", MOST_MONEY, found),
        notes=tuple(first_few(found.notes)),
    )
    if found.problems:
        raise Refused("; ".join(first_few(found.problems)))
    return observation


def _json(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise Refused(f"byte {error.start + 1}: the line is not UTF-8; write JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        if not line.strip():
            raise Refused("the line is empty; write one observation a line") from error
        raise Refused(f"column {error.colno}: not JSON ({error.msg}); write one object on one line") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON that can be read: {type(error).__name__}; see docs/planner.md") from error


def _has(data: Mapping[str, Any], key: str, place: str, found: Findings) -> bool:
    if key not in data:
        found.problem(f"{place}.{key}" if place else key, "is required and missing")
    return key in data


def _part(data: Mapping[str, Any], key: str, known: tuple[str, ...], found: Findings) -> Mapping[str, Any]:
    """A part that may be absent or null."""
    value = data.get(key)
    return {} if value is None else table(value, key, known, found)


def _slo(value: Any, found: Findings, *, bare: bool) -> tuple[float | None, float | None]:
    """Both goals; either may be null, but a planner without a configuration needs one."""
    data = {} if value is None else table(value, "slo", ("ttft_s", "tpot_s"), found)
    goals = [_goal(data.get(key), f"slo.{key}", found) for key in ("ttft_s", "tpot_s")]
    if bare and goals == [None, None] and not found.problems:
        found.problem("slo", "needs ttft_s or tpot_s, in seconds (or start with --config)")
    return goals[0], goals[1]


def _goal(value: Any, place: str, found: Findings) -> float | None:
    if value is None:
        return None
    exact = amount(value, place, 86_400, found)
    if exact == 0:
        found.problem(place, "must be above 0: no replica answers in no time")
    return exact


def _pools(data: Mapping[str, Any], found: Findings, *, bare: bool) -> tuple[ObservedPool, ...]:
    if not _has(data, "pools", "", found):
        return ()
    value = data["pools"]
    if not isinstance(value, dict):
        found.problem("pools", f"must be an object of pools by name, not {shown(value)}")
        return ()
    return tuple(_pool(name, pool, found, bare=bare) for name, pool in value.items())


def _pool(name: str, value: Any, found: Findings, *, bare: bool) -> ObservedPool:
    place = f"pools.{shown(name)[1:-1]}"
    text(name, place, LONGEST_NAME, found)
    data = table(value, place, _POOL, found)
    low, high = (_bound(data, key, place, found, bare=bare) for key in ("min", "max"))
    if low is not None and high is not None and low > high:
        found.problem(f"{place}.min", f"is {low}, above max ({high})")
    gpus, price = data.get("gpus_per_replica"), data.get("price_per_hour")
    return ObservedPool(
        name=name,
        replicas=_replicas(data, place, found),
        kind=_word(data.get("kind"), f"{place}.kind", list(PoolKind), found),
        role=_word(data.get("role"), f"{place}.role", list(PoolRole), found) or PoolRole.MIXED,
        minimum=low,
        maximum=high,
        gpus_per_replica=None if gpus is None else whole(gpus, f"{place}.gpus_per_replica", (1, 1024), found),
        price_per_hour=None if price is None else amount(price, f"{place}.price_per_hour", MOST_MONEY, found),
        ratio=_ratio(data.get("ratio"), f"{place}.ratio", found),
    )


def _bound(data: Mapping[str, Any], key: str, place: str, found: Findings, *, bare: bool) -> int | None:
    if data.get(key) is None:
        if bare:
            found.problem(f"{place}.{key}", "is required and missing")
        return None
    return whole(data[key], f"{place}.{key}", (0, MOST_REPLICAS), found)


def _word(value: Any, place: str, words: list[T], found: Findings) -> T | None:
    if value is None or value in words:
        return next((word for word in words if word == value), None)
    found.problem(place, f"must be one of {', '.join(map(str, words))}, not {shown(value)}")
    return None


def _ratio(value: Any, place: str, found: Findings) -> tuple[float, float] | None:
    """A number, [least, most] or {"min", "max"}: prefill replicas for each decode replica."""
    if value is None:
        return None
    if isinstance(value, dict):
        data = table(value, place, ("min", "max"), found)
        value = [data.get("min"), data.get("max")]
    ends = [number(each) for each in (value if isinstance(value, list) else [value, value])]
    known = [end for end in ends if end is not None and math.isfinite(end) and 0 < end <= MOST_REPLICAS]
    if len(known) != 2 or len(ends) != 2 or known[0] > known[1]:
        found.problem(place, f"must be a number above 0, [least, most] or {{min, max}}, not {shown(value)}")
        return None
    return known[0], known[1]


def _replicas(data: Mapping[str, Any], place: str, found: Findings) -> tuple[ObservedReplica, ...]:
    if not _has(data, "replicas", place, found):
        return ()
    value = data["replicas"]
    if not isinstance(value, list) or len(value) > MOST_REPLICAS:
        found.problem(f"{place}.replicas", f"must be an array of at most {MOST_REPLICAS} replicas, not {shown(value)}")
        return ()
    replicas = tuple(_replica(each, f"{place}.replicas[{number}]", found) for number, each in enumerate(value))
    seen: set[str] = set()
    for position, replica in enumerate(replicas):
        if str(replica.id) in seen:
            found.problem(f"{place}.replicas[{position}].id", f"{shown(replica.id)} stands twice in this pool")
        seen.add(str(replica.id))
    return replicas


def _replica(value: Any, place: str, found: Findings) -> ObservedReplica:
    data = table(value, place, _REPLICA, found)
    since, why = data.get("since"), data.get("why")
    if data.get("state") is None and data:
        found.problem(f"{place}.state", f"is required and missing: one of {', '.join(STATES)}")
    return ObservedReplica(
        id=_id(data.get("id"), f"{place}.id", found),
        state=_word(data.get("state"), f"{place}.state", list(STATES), found) or "",
        since=moment(since, f"{place}.since", found) or EPOCH,
        why=why[:_LONGEST_WHY] if isinstance(why, str) else "",
        signals=_signals(data.get("signals"), f"{place}.signals", found),
    )


def _id(value: Any, place: str, found: Findings) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return text(value, place, LONGEST_NAME, found)


def _signals(value: Any, place: str, found: Findings) -> Mapping[str, Number]:
    if value is None:
        return dict.fromkeys(SIGNALS, _SILENT)
    data = table(value, place, SIGNALS, found)
    return {name: _signal(data.get(name), f"{place}.{name}", found) for name in SIGNALS}


def _signal(value: Any, place: str, found: Findings) -> Number:
    """A number from 0 up, or why it is missing; what is no such number is said."""
    if value is None:
        return _SILENT
    exact = number(value)
    if exact is None or exact < 0:
        found.note(place, f"{shown(value)} is no number from 0 up: taken as missing")
        return Missing(Gap.MALFORMED)
    if not math.isfinite(exact):
        found.note(place, f"{shown(value)} is not finite: taken as missing")
        return Missing(Gap.NOT_FINITE)
    return exact
