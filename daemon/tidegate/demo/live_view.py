"""The live view in the terminal: traffic, pools, decisions, alerts, and the gateway's own count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidegate.demo.fleet_history import Drop, FleetHistory
from tidegate.demo.gateway import Counts
from tidegate.demo.receiver import Delivery
from tidegate.link.messages import CostShape, DecisionShape, PoolShape, StatusShape

BARS = " ▁▂▃▄▅▆▇█"
CELL = timedelta(minutes=20)
"""Played time that one bar of the traffic stands for."""
CELLS_SHOWN, DECISIONS_SHOWN, MESSAGES_SHOWN = 72, 7, 6
_FEWEST = 2
"""Of decisions, and of messages, however low the terminal is."""
_FIXED_LINES = 16
"""The head, the traffic, the pools' frame and titles, the legend, the money, two more frames."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that one picture shows."""

    now: datetime
    since: datetime
    """When the traffic began."""
    speed: float
    url: str
    counts: Counts
    traffic: Sequence[float]
    """Requests per second, one value a CELL since the day began."""
    fleet: FleetHistory
    cost: CostShape | None
    """Of the day so far."""
    deliveries: Sequence[Delivery]
    controller_away: bool


def sparkline(values: Sequence[float]) -> str:
    """One bar a value, the highest as high as the line."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(BARS[min(8, max(1 if value > 0 else 0, round(8 * value / top)))] for value in values)


def rates(history: Sequence[Counts], since: datetime) -> list[float]:
    """Arrivals per second in each CELL since `since`, the last one only once half of it has passed; a day at most."""
    last = {(counts.at - since) // CELL: counts for counts in history if counts.at >= since}
    found, before = [], Counts(since)
    for cell, counts in sorted(last.items()):
        if counts.at - (since + cell * CELL) < CELL / 2 and cell == max(last):
            break
        found.append((counts.arrived - before.arrived) / max(1.0, (counts.at - before.at).total_seconds()))
        before = counts
    return found[-CELLS_SHOWN:]


def render(frame: Frame, height: int = 50) -> RenderableType:
    """The whole picture, in so many lines of eighty columns or more."""
    status = frame.fleet.last
    parts: list[RenderableType] = [_head(frame), _traffic(frame)]
    if status is None:
        parts.append(Panel(Text("the controller makes its database and starts ..."), title="pools"))
    else:
        decisions, messages = _room(height - _FIXED_LINES - len(status.pools))
        parts += [_pools(status), _legend(), _money(frame)]
        parts.append(_decisions(frame.fleet.decisions()[-decisions:]))
        parts.append(_messages(frame, messages))
    return Group(*parts)


def _room(lines: int) -> tuple[int, int]:
    """How many decisions and messages fit into so many lines: both shrink, neither goes."""
    messages = min(MESSAGES_SHOWN, max(_FEWEST, lines // 2))
    return min(DECISIONS_SHOWN, max(_FEWEST, lines - messages)), messages


def _head(frame: Frame) -> RenderableType:
    text = Text.assemble(
        ("Tidegate ", "bold"),
        (f"{frame.now:%A %H:%M}", "bold cyan"),
        f"  played {frame.speed:.0f} times as fast; Ctrl-C ends it\n",
        "status page ",
        (f"{frame.url}/", "underline"),
    )
    if frame.controller_away:
        text.append("   the controller does not answer", style="bold red")
    return text


def _traffic(frame: Frame) -> RenderableType:
    counts, now = frame.counts, frame.traffic[-1] if frame.traffic else 0.0
    text = Text(sparkline(frame.traffic) or "the day has not begun", style="cyan")
    text.append(
        f"\n{now:.2f} requests/s   {counts.arrived:,} arrived   {counts.finished:,} answered   "
        f"{counts.outstanding} under way",
        style="default",
    )
    if counts.waiting:
        text.append(f"   {counts.waiting} without an endpoint", style="yellow")
    text.append(f"   {counts.lost} lost", style="bold red" if counts.lost else "green")
    return Panel(text, title="traffic, counted by the gateway", title_align="left")


def _pools(status: StatusShape) -> RenderableType:
    table = Table(expand=True, box=None, pad_edge=False, collapse_padding=True)
    table.add_column("pool", no_wrap=True)
    table.add_column("replicas", no_wrap=True)
    for title in ("target", "running", "queue", "hit rate", "GPU", "KV", "TTFT p95", "tokens /GPU/s"):
        table.add_column(title, justify="right")
    table.add_column(f"{status.currency} per 1M*", justify="right")
    for pool in status.pools:
        table.add_row(*_pool_cells(pool))
    return Panel(table, title="pools", title_align="left")


def _pool_cells(pool: PoolShape) -> list[RenderableType]:
    figures = pool.figures
    return [
        Text(pool.name, style="bold"),
        _squares(pool),
        f"{pool.target} of {pool.max}",
        _number(figures.running, "{:.0f}"),
        _number(figures.queue_depth, "{:.0f}"),
        _number(figures.kv_cache_hit_rate, "{:.2f}"),
        _number(figures.gpu_utilization, "{:.0%}"),
        _number(figures.kv_cache_usage, "{:.0%}"),
        _number(figures.ttft_p95_seconds, "{:.2f} s"),
        _number(figures.tokens_per_gpu_per_second, "{:.0f}"),
        _number(figures.cost_per_million_tokens, "{:.2f}"),
    ]


def _squares(pool: PoolShape) -> Text:
    free = max(0, pool.max - pool.ready - pool.starting - pool.leaving)
    return Text.assemble(
        ("■" * pool.ready, "green"),
        ("▣" * pool.starting, "yellow"),
        ("▨" * pool.leaving, "magenta"),
        ("□" * free, "dim"),
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _legend() -> RenderableType:
    return Text("■ ready ▣ starting ▨ leaving □ free   - missing   * estimated, last hour", style="dim")


def _money(frame: Frame) -> RenderableType:
    cost = frame.cost
    if not cost or not cost.tokens or cost.amount is None or cost.per_million_tokens is None:
        return Text("the day so far: no cost yet", style="dim")
    return Text.assemble(
        f"the day so far: {cost.tokens / 1_000_000:.1f} M tokens, {cost.gpu_hours:.1f} GPU hours, ",
        (f"{cost.amount:.2f} {cost.currency}: {cost.per_million_tokens:.2f} a million", "bold"),
        "*",
    )


def _decisions(decisions: Sequence[DecisionShape]) -> RenderableType:
    table = Table(expand=True, box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for found in reversed(decisions):
        table.add_row(f"{found.at:%H:%M}", found.pool, f"{found.current} → {found.target}", found.reason)
    return Panel(table, title="last decisions", title_align="left")


def _messages(frame: Frame, most: int) -> RenderableType:
    """Webhooks and alerts as they happened; the last ones."""
    lines = [(found.at, _delivery(found)) for found in frame.deliveries]
    lines += [(drop.resolved_at or drop.fired_at, _drop(drop)) for drop in frame.fleet.drops()]
    last = [line for _, line in sorted(lines, key=lambda pair: pair[0])][-most:]
    text = Text("\n", no_wrap=True, overflow="ellipsis").join(last) if last else Text("none yet", style="dim")
    return Panel(text, title="webhooks and alerts", title_align="left")


def _delivery(found: Delivery) -> Text:
    mark = ("signature right", "green") if found.verified else (found.why, "red")
    return Text.assemble(f"{found.at:%H:%M} webhook {found.type} ", mark)


def _drop(drop: Drop) -> Text:
    if drop.resolved_at:
        return Text(f"{drop.resolved_at:%H:%M} resolved, fired {drop.fired_at:%H:%M}: {drop.summary}", style="dim")
    return Text(f"{drop.fired_at:%H:%M} firing: {drop.summary}", style="red")
