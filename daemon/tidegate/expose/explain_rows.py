"""Why a pool has its size, as the rows of a small table on the status page. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from tidegate.expose.amounts import ago, clock_text, span_text
from tidegate.expose.words import Words
from tidegate.model.command import Command, CommandKind
from tidegate.model.overview import Learned, Overview, PoolOverview
from tidegate.model.price import FlavourPrice, PriceSource


def explain_rows(pool: PoolOverview, overview: Overview, now: datetime, words: Words) -> list[tuple[str, str]]:
    """(what, how it is) of the policy, the commands in force, what was learned and what is under way."""
    concerned = [one for one in overview.commands if one.order.pool in (None, pool.policy.name) and one.stands(now)]
    return [
        (words("sized_by"), words(f"policy.{pool.sized_by.value}")),
        *((words("command"), _command(command, now, words)) for command in concerned),
        *_learned(pool.learned, now, words),
        *((words("price_of"), _price(price, words)) for price in pool.prices),
    ]


def _command(command: Command, now: datetime, words: Words) -> str:
    order = command.order
    what = words(f"command.{order.kind.value}")
    if order.kind is CommandKind.BOUNDS:
        ends = ("" if end is None else str(end) for end in (order.minimum, order.maximum))
        what += " " + "..".join(ends)
    if order.mode is not None:
        what += " " + order.mode.value
    end = words("open_end") if order.until is None else ago(order.until, now, words)
    return words("command_by", what=what, by=order.by, end=end)


def _learned(learned: Learned, now: datetime, words: Words) -> Iterator[tuple[str, str]]:
    start = learned.start_seconds
    if start is None:
        yield words("start_time"), words("not_seen")
    else:
        yield words("start_time"), words("seen_times", span=_span(start, words), n=learned.starts)
    if learned.drain_seconds is not None:
        yield words("drain_time"), _span(learned.drain_seconds, words)
    if learned.requests_per_second is not None:
        yield words("capacity"), words("capacity_of_one", n=f"{learned.requests_per_second:.3g}")
    for flavour, one in learned.back_offs.items():
        end = ago(one.until, now, words)
        kind = words.phrase(one.kind.value)
        yield words("back_off"), words("back_off_of", flavour=flavour, kind=kind, n=one.failures, end=end, why=one.why)
    for order in learned.pending:
        yield words("pending"), f"{order.kind} {order.replica} ({clock_text(order.at)})"


def _price(price: FlavourPrice, words: Words) -> str:
    if price.per_gpu_hour is None:
        return words("price_unknown", flavour=price.flavour)
    amount = f"{_plain(price.per_gpu_hour)} {price.currency}"
    if price.source is not PriceSource.BILLS:
        return words("price_configured", flavour=price.flavour, amount=amount)
    text = words("price_billed", flavour=price.flavour, amount=amount, n=price.days, last=str(price.last))
    if price.configured is not None:
        text += words("price_was", amount=_plain(price.configured))
    if price.bounded and price.billed is not None:
        text += words("price_bounded", amount=_plain(price.billed))
    return text


def _plain(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def _span(seconds: float, words: Words) -> str:
    return span_text(timedelta(seconds=seconds), words)
