"""What a replay found, as data and as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.controller.replay import PoolTally, Replayed, Risk

_MOST_LINES = 20


def as_data(played: Replayed, currency: str) -> dict[str, Any]:
    """Everything, for programs; amounts are decimal strings."""
    return {
        "since": played.since.isoformat() if played.since else None,
        "until": played.until.isoformat() if played.until else None,
        "ticks": played.ticks,
        "currency": currency,
        "pools": {name: _pool(tally) for name, tally in played.pools.items()},
        "slo_risk": {
            name: dict(zip(("was", "would"), _shares(risk), strict=True)) for name, risk in played.risks.items()
        },
        "differences": [
            {"at": one.at.isoformat(), "pool": one.pool, "was": one.was, "would": one.would, "reason": one.reason}
            for one in played.differences
        ],
        "notes": list(played.notes),
    }


def _pool(tally: PoolTally) -> dict[str, Any]:
    return {
        "replica_hours": {"was": round(tally.hours_was, 3), "would": round(tally.hours_would, 3)},
        "gpu_hours": {"was": round(tally.gpu_hours_was, 3), "would": round(tally.gpu_hours_would, 3)},
        "cost": {"was": _money(tally.cost_was), "would": _money(tally.cost_would)},
        "changes": {"was": tally.changes_was, "would": tally.changes_would},
        "ticks_that_differ": tally.differs,
    }


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.2f}"


def _shares(risk: Risk) -> tuple[float | None, float | None]:
    if not risk.tokens:
        return None, None
    return round(risk.missed_was / risk.tokens, 4), round(risk.missed_would / risk.tokens, 4)


def as_text(played: Replayed, currency: str) -> Iterator[str]:
    """For people."""
    if played.since is None or played.until is None:
        yield from played.notes
        return
    span = f"{played.since:%Y-%m-%d %H:%M} to {played.until:%Y-%m-%d %H:%M} UTC"
    yield f"{span}, {played.ticks} ticks: was -> would have been"
    for name, tally in played.pools.items():
        cost = ""
        if tally.cost_was is not None and tally.cost_would is not None:
            change = _change(tally.cost_was, tally.cost_would)
            cost = f", {tally.cost_was:.2f} -> {tally.cost_would:.2f} {currency}{change}"
        yield (
            f"  {name}: {tally.hours_was:.1f} -> {tally.hours_would:.1f} replica hours{cost},"
            f" {tally.changes_was} -> {tally.changes_would} changes, another target at {tally.differs} ticks"
        )
    for service, risk in played.risks.items():
        was, would = _shares(risk)
        if was is not None and would is not None:
            yield f"  {service}: tokens served while a p95 missed the objective: {was:.2%} -> {would:.2%}"
    for one in played.differences[:_MOST_LINES]:
        yield f"  {one.at:%m-%d %H:%M:%S} {one.pool}: target {one.was} -> {one.would}: {one.reason}"
    left = len(played.differences) - _MOST_LINES
    if left > 0:
        yield f"  ... {left} more (--json)"
    yield from (f"note: {note}" for note in played.notes)


def _change(was: Decimal, would: Decimal) -> str:
    return f" ({(would - was) / was:+.0%})" if was else ""
