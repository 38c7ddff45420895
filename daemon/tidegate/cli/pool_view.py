"""An explanation of a pool as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.link.messages import SignalShape
    from tidegate.link.pool_messages import CommandShape, ExplanationShape, FlavourPriceShape, LearnedShape

_MOST_SIGNALS = 60


def table(pools: Sequence[ExplanationShape]) -> Iterator[str]:
    """One line a pool."""
    if not pools:
        yield "no pools: none is configured, or no tick has gone through yet"
        return
    width = max(len("POOL"), *(len(found.pool.name) for found in pools))
    yield f"{'POOL':{width}}  KIND   CURRENT  TARGET  MIN..MAX  BOUND BY"
    for found in pools:
        pool = found.pool
        limits = ", ".join(pool.decision.limits) if pool.decision else ""
        held = ", ".join(sorted({command.kind.value for command in found.commands}))
        bound = "; ".join(part for part in (limits, held) if part) or "-"
        size = f"{pool.kind:5}  {pool.current:7}  {pool.target:6}  {pool.min:3}..{pool.max:<3}"
        yield f"{pool.name:{width}}  {size}  {bound}"


def explanation(found: ExplanationShape) -> Iterator[str]:
    """Everything that the size of one pool rests on."""
    pool, decision = found.pool, found.pool.decision
    yield f"{pool.name} ({pool.kind}, {pool.role}) of {pool.service}, sized by {found.policy}, mode {found.mode}"
    yield (
        f"  now        {pool.ready} ready, {pool.starting} starting, {pool.leaving} leaving;"
        f" {pool.min} to {pool.max} allowed"
    )
    if decision is None:
        yield "  decision   none yet: no tick has gone through"
    else:
        yield f"  decision   current {decision.current}, wanted {decision.wanted}, target {decision.target}"
        yield f"  why        {decision.reason}"
        yield f"  bound by   {', '.join(decision.limits) or 'nothing'}"
        yield f"  may change {_moment(decision.may_change_at, decision.at)}"
        yield f"  decided    {decision.at:%Y-%m-%d %H:%M:%S} UTC"
    yield from (f"  command    {_command(command)}" for command in found.commands)
    yield from _learned(found.learned)
    yield from (f"  price      {_price(price)}" for price in found.prices)
    yield from _signals(decision.signals if decision else [])


def _moment(at: datetime | None, now: datetime) -> str:
    return "at the next tick" if at is None or at <= now else f"at {at:%Y-%m-%d %H:%M:%S} UTC"


def _command(command: CommandShape) -> str:
    what = command.kind.value.replace("_", " ")
    if command.mode is not None:
        what = f"mode {command.mode}"
    if command.min is not None or command.max is not None:
        what += f" {'..'.join('' if end is None else str(end) for end in (command.min, command.max))}"
    until = "until it is ended" if command.until is None else f"until {command.until:%Y-%m-%d %H:%M:%S} UTC"
    return f"{what} by {command.by}, {until}"


def _learned(learned: LearnedShape) -> Iterator[str]:
    start = (
        "not seen yet" if learned.start_seconds is None else f"{learned.start_seconds:.0f} s ({learned.starts} seen)"
    )
    yield f"  start time {start}"
    if learned.requests_per_second is not None:
        yield f"  capacity   {learned.requests_per_second:.3g} requests per second and replica within the objective"
    for one in learned.back_offs:
        trouble = f"{one.kind}, {one.failures} in a row"
        yield f"  back-off   flavour {one.flavour} until {one.until:%H:%M:%S} UTC ({trouble}): {one.why}"
    for order in learned.pending:
        times = f"since {order.at:%H:%M:%S} UTC, given up at {order.until:%H:%M:%S} UTC"
        yield f"  pending    {order.kind} {order.replica} {times}"


def _price(price: FlavourPriceShape) -> str:
    """One flavour's price and where it comes from."""
    if price.per_gpu_hour is None:
        return f"{price.flavour}: not known, set price_per_gpu_hour"
    text = f"{price.flavour}: {price.per_gpu_hour.normalize():f} {price.currency} per GPU hour, "
    if price.last is None:
        return text + "as configured"
    text += f"learned from bills to {price.last} (days: {price.days})"
    if price.configured is not None:
        text += f" (configured {price.configured:f})"
    if price.bounded and price.billed is not None:
        text += f"; bills say {price.billed.normalize():f}, kept within a fifth and five times the configured price"
    return text


def _signals(signals: Sequence[SignalShape]) -> Iterator[str]:
    for signal in signals[:_MOST_SIGNALS]:
        age = "" if signal.age_seconds is None else f", {signal.age_seconds:.0f} s old"
        value = f"missing ({signal.missing})" if signal.missing else "idle" if signal.idle else f"{signal.value:.6g}"
        yield f"  signal     {signal.source} {signal.name} = {value}{age}"
    if len(signals) > _MOST_SIGNALS:
        yield f"  signal     ... and {len(signals) - _MOST_SIGNALS} more (--json shows them)"
