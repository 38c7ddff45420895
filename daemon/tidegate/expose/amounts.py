"""Numbers, spans and moments as people read them, in the page's language. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tidegate.expose.words import Words

_SHARES = frozenset({"gpu_utilization", "kv_cache_usage", "kv_cache_hit_rate"})


def figure_text(name: str, value: float, currency: str) -> str:
    """A figure with its unit: a share in percent, a time in ms or s, a rate with thousands, money with its currency."""
    if name in _SHARES:
        return f"{value:.1%}"
    if name.endswith(("_seconds", "_p95")):
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
    if name == "cost_per_million_tokens":
        return f"{value:.3f} {currency}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def money_text(amount: Decimal, currency: str, places: int = 2) -> str:
    """An amount, rounded for the eye alone."""
    return f"{amount:,.{places}f} {currency}"


def count_text(number: Decimal | float) -> str:
    """A large count in thousands, millions or billions."""
    value = float(number)
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.2f} {suffix}"
    return f"{value:.0f}"


def span_text(span: timedelta, words: Words) -> str:
    """A span in its largest fitting unit."""
    seconds = max(0.0, span.total_seconds())
    for unit, size, limit in (("seconds", 1, 120), ("minutes", 60, 7200), ("hours", 3600, 172_800)):
        if seconds < limit:
            return words(unit, n=f"{seconds / size:.0f}")
    return words("days", n=f"{seconds / 86_400:.0f}")


def ago(moment: datetime | None, now: datetime, words: Words) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return words("never")
    if moment > now + timedelta(seconds=1):
        return words("in_future", span=span_text(moment - now, words))
    return words("ago", span=span_text(now - moment, words))


def clock_text(moment: datetime | None) -> str:
    """The moment itself, for a tooltip and for the log: UTC, to the second."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
