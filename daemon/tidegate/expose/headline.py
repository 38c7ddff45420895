"""The fleet at a glance: the few figures that stand above everything else on the status page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tidegate.expose.amounts import count_text, figure_text, money_text
from tidegate.expose.words import Words
from tidegate.model.alert import AlertPhase
from tidegate.model.overview import CostOverview, Overview, PoolOverview


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure with what it says and what it rests on."""

    label: str
    text: str
    """Empty when the figure is missing: the note says why."""
    note: str
    bad: bool = False


def tiles(overview: Overview, words: Words) -> list[Tile]:
    """Cost, money, replicas, requests, speed and alerts of the whole fleet."""
    pools = overview.pools
    return [
        *_cost_tiles(overview, words),
        _replicas(pools, words),
        _requests(pools, words),
        _speed(pools, words),
        _alerts(overview, words),
    ]


def _cost_tiles(overview: Overview, words: Words) -> list[Tile]:
    label, spent = words("figure.cost_per_million_tokens"), words("spent")
    if overview.cost is None:
        return [Tile(label, "", words("no_cost")), Tile(spent, "", words("no_cost"))]
    total = overview.cost.total
    if total.amount is None:
        why = words("amount_unknown")
        return [Tile(label, "", why), Tile(spent, "", why)]
    state = words("last_hour", state=words(f"cost_state.{total.state.value}"))
    bound = "≤ " if total.partial else ""
    million = (
        Tile(label, "", words("idle_cost"))
        if total.per_million is None
        else Tile(label, bound + money_text(total.per_million, total.currency, 3), state)
    )
    return [million, Tile(spent, money_text(total.amount, total.currency), _burst(overview.cost.burst, total, words))]


def _burst(burst: CostOverview, total: CostOverview, words: Words) -> str:
    """How much of the money the peaks took."""
    if burst.amount is None or not total.amount or burst.currency != total.currency:
        return words("last_hour", state=words(f"cost_state.{total.state.value}"))
    return words("burst_share", share=f"{burst.amount / total.amount:.0%}", hours=f"{total.gpu_hours:.1f}")


def _replicas(pools: Sequence[PoolOverview], words: Words) -> Tile:
    ready, target = sum(pool.figures.ready for pool in pools), sum(pool.figures.target for pool in pools)
    gpus = sum(pool.figures.gpus for pool in pools)
    return Tile(words("replicas"), words("ready_of", ready=ready, target=target), words("gpus_held", n=gpus))


def _requests(pools: Sequence[PoolOverview], words: Words) -> Tile:
    waiting, running = (_total(getattr(pool.figures, name) for pool in pools) for name in ("queue_depth", "running"))
    label = words("figure.queue_depth")
    if waiting is None:
        return Tile(label, "", words("not_known"))
    note = "" if running is None else words("running", n=figure_text("running", running, ""))
    at_least = "≥ " if any(_serves(pool) and "queue_depth" in pool.gaps for pool in pools) else ""
    return Tile(label, at_least + figure_text("queue_depth", waiting, ""), note)


def _serves(pool: PoolOverview) -> bool:
    return pool.figures.ready + pool.figures.leaving > 0


def _speed(pools: Sequence[PoolOverview], words: Words) -> Tile:
    """Tokens per GPU and second of the pools that say theirs: their tokens over their GPUs."""
    serving = [pool.figures for pool in pools if pool.figures.tokens_per_gpu_per_second is not None]
    gpus = sum(figures.gpus for figures in serving)
    tokens = sum((figures.tokens_per_gpu_per_second or 0.0) * figures.gpus for figures in serving)
    label = words("figure.tokens_per_gpu_per_second")
    if not gpus:
        return Tile(label, "", words("not_known"))
    per_gpu = figure_text("tokens_per_gpu_per_second", tokens / gpus, "")
    return Tile(label, per_gpu, words("fleet_speed", n=count_text(Decimal(tokens))))


def _alerts(overview: Overview, words: Words) -> Tile:
    firing = sum(alert.phase is AlertPhase.FIRING for alert in overview.alerts)
    label = words("alerts")
    if not firing:
        return Tile(label, words("none"), words("none_fires"))
    return Tile(label, words("firing", n=firing), words("see_below"), bad=True)


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
