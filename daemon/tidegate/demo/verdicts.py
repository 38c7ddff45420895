"""Whether the day went as promised: one sentence for each promise, with the facts that it rests on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.demo.fleet_history import FleetHistory
from tidegate.demo.gateway import Counts
from tidegate.demo.receiver import Delivery
from tidegate.link.messages import CostsShape, StatusShape
from tidegate.model.money import CostState

SETTLE_WITHIN = timedelta(hours=2)
"""Played time after the day in which the fleet has to come to rest."""
TOKENS_AGREE_WITHIN = 0.002
TOKENS_AGREE_WHILE_SERVING = 0.02
"""The gateway counts a request when it ends, an engine each token as it comes."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the summary rests on."""

    since: datetime
    speed: float
    counts: Counts
    closed: bool
    """No request arrives any more, so every one must have been answered."""
    fleet: FleetHistory
    costs: CostsShape
    """Of the day, before any bill."""
    tokens: float
    """What the controller has counted from the start until now; unlike the day's, it has no edge inside the traffic."""
    deliveries: Sequence[Delivery]
    burst: str
    event: tuple[datetime, datetime]
    """When the hit rate was spoilt, and until when that may still be told."""
    billed: Sequence[CostsShape]
    """Of the day after each bill: preliminary, invoiced, corrected."""
    bill_total: Decimal
    """What all bills together come to."""


def settled(fleet: FleetHistory, burst: str, deliveries: Sequence[Delivery]) -> bool:
    """True when the burst pool is empty again and every transition of an alert has been told."""
    path = fleet.sizes.get(burst, [])
    drops = fleet.drops()
    told = len(deliveries) >= 2 * len(drops) and all(drop.resolved_at for drop in drops)
    return bool(path) and path[-1].held == 0 and told


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise, and whether it was kept."""

    ok: bool
    text: str


def verdicts(facts: Facts) -> list[Verdict]:
    """Every promise of the demo, and whether it was kept."""
    return [
        _served(facts),
        _burst(facts),
        _tokens(facts),
        _priced(facts.costs),
        _billed(facts),
        _alerted(facts),
        _webhooks(facts),
        _complete(facts.fleet.last),
    ]


def _served(facts: Facts) -> Verdict:
    counts = facts.counts
    unanswered = counts.arrived - counts.finished - counts.lost
    text = f"{counts.finished:,} of {counts.arrived:,} requests answered, {counts.lost} lost by scale-in"
    return Verdict(counts.finished > 0 and not counts.lost and not (facts.closed and unanswered), text)


def _burst(facts: Facts) -> Verdict:
    path, peak = facts.fleet.sizes.get(facts.burst, []), facts.fleet.peak(facts.burst)
    if not path or peak is None or not peak.ready:
        return Verdict(ok=False, text=f"the {facts.burst} pool never had a ready replica")
    first = next(size for size in path if size.held)
    last = path[-1]
    again = f"{last.at:%H:%M}" + (" of the next day" if last.at.date() != facts.since.date() else "")
    text = (
        f"{facts.burst} pool: 0 until {first.at:%H:%M}, peak {peak.ready} at {peak.at:%H:%M}, "
        f"{last.held} again at {again}"
    )
    return Verdict(path[0].held == 0 and last.held == 0, text)


def _tokens(facts: Facts) -> Verdict:
    ours, theirs = facts.counts.tokens, facts.tokens
    off = abs(theirs - ours) / ours if ours else 1.0
    text = (
        f"{theirs / 1e6:.2f} million tokens by the engines' counters, {ours / 1e6:.2f} by the gateway's: {off:.2%} off"
    )
    return Verdict(off <= (TOKENS_AGREE_WITHIN if facts.closed else TOKENS_AGREE_WHILE_SERVING), text)


def _priced(costs: CostsShape) -> Verdict:
    whole = costs.total
    if whole.per_million_tokens is None or whole.amount is None:
        return Verdict(ok=False, text=f"no cost per million tokens ({'; '.join(whole.notes) or 'no reason given'})")
    text = (
        f"{whole.per_million_tokens:.2f} {whole.currency} per million tokens ({whole.state}): "
        f"{whole.amount:.2f} {whole.currency} for {whole.gpu_hours:.1f} GPU hours"
    )
    return Verdict(whole.state is CostState.ESTIMATED and whole.per_million_tokens > 0, text)


def _billed(facts: Facts) -> Verdict:
    if not facts.billed:
        return Verdict(ok=False, text="no bill was imported")
    states, last = [each.total.state for each in facts.billed], facts.billed[-1].total
    per_million = "no" if last.per_million_tokens is None else f"{last.per_million_tokens:.2f}"
    text = (
        f"{per_million} {last.currency} per million tokens by the bill ({', then '.join(states)}): "
        f"{last.amount or 0:.2f} of {facts.bill_total:.2f} {last.currency} shared out, "
        f"{len(facts.billed[-1].others)} lines of no pool"
    )
    wanted = [CostState.PARTIAL, CostState.FINAL, CostState.FINAL]
    return Verdict(states == wanted and last.amount == facts.bill_total, text)


def _alerted(facts: Facts) -> Verdict:
    spoilt, over = facts.event
    drops = [drop for drop in facts.fleet.drops() if spoilt <= drop.fired_at <= over]
    if not drops:
        return Verdict(ok=False, text=f"no hit-rate alert fired between {spoilt:%H:%M} and {over:%H:%M}")
    ends = [drop.resolved_at for drop in drops]
    false_alarms = len(facts.fleet.drops()) - len(drops)
    resolved = [end for end in ends if end is not None]
    told = f"and resolved at {max(resolved):%H:%M}" if len(resolved) == len(ends) else "and never resolved"
    shown = "; ".join(f"{drop.pool} {_ratio(drop.value)} against {_ratio(drop.baseline)}" for drop in drops)
    others = f"; {false_alarms} more at other times" if false_alarms else ""
    text = f"hit-rate alert fired at {drops[0].fired_at:%H:%M} ({shown}) {told}{others}"
    return Verdict(len(resolved) == len(ends) and not false_alarms, text)


def _ratio(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"


def _webhooks(facts: Facts) -> Verdict:
    wanted = 2 * len(facts.fleet.drops())
    verified = sum(found.verified for found in facts.deliveries)
    text = f"{len(facts.deliveries)} webhooks arrived for {wanted} transitions, {verified} with a right signature"
    return Verdict(verified == len(facts.deliveries) == wanted > 0, text)


def _complete(status: StatusShape | None) -> Verdict:
    if status is None:
        return Verdict(ok=False, text="the controller never answered")
    ticks = sum(job.runs for job in status.jobs if job.name == "tick")
    failures = sum(job.failures for job in status.jobs)
    dropped, cut = sum(host.spool_dropped for host in status.hosts), status.summary.cut_requests
    text = (
        f"{ticks} ticks, {status.summary.reports.get('stored', 0):,} reports stored and {dropped} dropped, "
        f"{cut} requests cut by a drain's deadline, {failures} failed jobs"
    )
    return Verdict(ticks > 0 and not dropped and not cut and not failures, text)
