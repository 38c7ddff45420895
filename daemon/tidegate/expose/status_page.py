"""The fleet as a page for people: plain HTML without scripts, in English or Chinese, from one overview."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from tidegate.expose.amounts import ago, clock_text, count_text, figure_text, money_text, span_text
from tidegate.expose.billed_rows import billed_rows
from tidegate.expose.chinese import chinese
from tidegate.expose.explain_rows import explain_rows
from tidegate.expose.headline import tiles
from tidegate.expose.words import LANGUAGES, Words
from tidegate.model.decision import UsedSignal
from tidegate.model.fleet import LEAVING_STATES, STARTING_STATES, Idle, PoolKind, PoolName, ReplicaState, Value
from tidegate.model.overview import CostOverview, Overview, PoolOverview
from tidegate.model.reading import Missing

REFRESH_SECONDS = 10
_MOST_BOXES = 40
"""Beyond this many places a row of boxes says less than the numbers do."""
_FIGURES = (
    "queue_depth",
    "running",
    "gpu_utilization",
    "kv_cache_usage",
    "kv_cache_hit_rate",
    "tokens_per_gpu_per_second",
    "prompt_tokens_per_second",
    "generation_tokens_per_second",
    "ttft_p95_seconds",
    "tpot_p95_seconds",
    "e2e_p99_seconds",
)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure on the page: its value, or why there is none."""

    label: str
    text: str
    missing: str
    note: str
    """What makes a value incomplete, or its state."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One line of the cost table."""

    label: str
    kind: str
    line: CostOverview
    price: Decimal | None
    """Per GPU hour; of several pools their mean. None when the amount is not known or nothing was held."""
    sum: bool = False

    @property
    def idle(self) -> bool:
        """True when money was spent and no token served."""
        return self.line.tokens == 0


def render(
    overview: Overview, now: datetime, ready: tuple[bool, str], language: str, refresh_seconds: int = REFRESH_SECONDS
) -> str:
    """The whole page in the language, at `now`; it asks for itself again after `refresh_seconds`, with 0 never."""
    words = Words(language)
    said = chinese if language == "zh" else str
    page = _environment().get_template("status.html")
    return page.render(
        o=overview,
        w=words,
        now=now,
        ready=ready[0],
        ready_why=ready[1],
        refresh=refresh_seconds,
        hold="" if refresh_seconds else "&hold=true",
        said=said,
        tiles=tiles(overview, words),
        languages=LANGUAGES,
        ago=lambda moment: ago(moment, now, words),
        clock=clock_text,
        count=count_text,
        money=money_text,
        span=lambda span: span_text(span, words),
        figures=lambda pool: figure_rows(pool, overview, words),
        bound=bound,
        boxes=boxes,
        cost_rows=cost_rows(overview, words),
        billed_rows=billed_rows(overview, words),
        explain=lambda pool: explain_rows(pool, overview, now, words),
        signal=lambda used: signal_text(used, words),
        states=lambda pool: state_counts(pool, overview, words),
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tidegate.expose"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def cost_rows(overview: Overview, words: Words) -> list[CostRow]:
    """Each pool, then all together, then the burst pools alone where there is not just one."""
    if overview.cost is None:
        return []
    kinds = {pool.policy.name: pool.policy.kind for pool in overview.pools}
    rows = [
        CostRow(
            line.pool,
            words(f"kind.{kinds[name]}") if (name := PoolName(line.pool)) in kinds else "",
            line,
            _price(line),
        )
        for line in overview.cost.pools
    ]
    total, burst = overview.cost.total, overview.cost.burst
    rows.append(CostRow(words("all_pools"), "", total, _price(total), sum=True))
    if list(kinds.values()).count(PoolKind.BURST) != 1:
        rows.append(CostRow(words("of_which_burst"), "", burst, _price(burst), sum=True))
    return rows


def _price(line: CostOverview) -> Decimal | None:
    return line.amount / line.gpu_hours if line.amount is not None and line.gpu_hours else None


def figure_rows(pool: PoolOverview, overview: Overview, words: Words) -> list[FigureRow]:
    """The pool's figures in the page's order, the last the cost; an absent one says why."""
    rows = []
    for name in _FIGURES:
        value: float | None = getattr(pool.figures, name)
        gap = _gap_text(pool.gaps.get(name, "not_reported"), words)
        note = gap if name in pool.gaps else ""
        label = words(f"figure.{name}")
        if value is None:
            rows.append(FigureRow(label, "", words("missing", why=gap), ""))
        else:
            rows.append(FigureRow(label, figure_text(name, value, ""), "", note))
    return [*rows, _cost_figure(pool, overview, words)]


def _cost_figure(pool: PoolOverview, overview: Overview, words: Words) -> FigureRow:
    """The pool's cost as in the table below it: the figure of the last tick may rest on an older hour."""
    label = words("figure.cost_per_million_tokens")
    lines = overview.cost.pools if overview.cost else ()
    line = next((line for line in lines if line.pool == pool.policy.name), None)
    if line is None or line.per_million is None:
        return FigureRow(label, "", words("missing", why=_no_cost(line, words)), "")
    state = words("last_hour", state=words(f"cost_state.{line.state.value}"))
    return FigureRow(label, bound(line) + money_text(line.per_million, line.currency, 3), "", state)


def _no_cost(line: CostOverview | None, words: Words) -> str:
    if line is None:
        return words("cost_not_yet")
    if line.amount is None:
        return words("amount_unknown")
    return words("tokens_unknown" if line.tokens is None else "idle_cost")


def bound(line: CostOverview) -> str:
    """What stands before a cost per token: where the tokens are a lower bound, the cost is an upper one."""
    return "≤ " if line.partial else ""


def _gap_text(gap: str, words: Words) -> str:
    """A reason in words: one of the program's terms, or a sentence about several replicas."""
    known = words.phrase(gap)
    return chinese(gap) if words.language == "zh" and known == gap.replace("_", " ") else known


def boxes(pool: PoolOverview) -> list[str]:
    """One box a place up to the pool's maximum: ready, starting, leaving, aimed at, or free; none for a huge pool."""
    figures = pool.figures
    places = max(pool.policy.max, figures.ready + figures.starting + figures.leaving, figures.target)
    if places > _MOST_BOXES:
        return []
    filled = ["ready"] * figures.ready + ["starting"] * figures.starting + ["leaving"] * figures.leaving
    aimed = ["aimed"] * max(0, figures.target - figures.ready - figures.starting)
    row = filled + aimed
    return row + ["free"] * (places - len(row))


def state_counts(pool: PoolOverview, overview: Overview, words: Words) -> list[tuple[str, str, int]]:
    """(colour, words, number) of every state that a replica of the pool is in."""
    states = [replica.state for replica in overview.replicas if replica.pool == pool.policy.name]
    return [
        (colour(state), words(f"state.{state.value}"), states.count(state)) for state in ReplicaState if state in states
    ]


def colour(state: ReplicaState) -> str:
    """The page's class for a state."""
    if state in STARTING_STATES:
        return "starting"
    if state in LEAVING_STATES:
        return "leaving"
    return state.value


def signal_text(used: UsedSignal, words: Words) -> str:
    """One input of a decision in a few words."""
    name = f"{used.source} {used.name}"
    match used.signal:
        case Value(value, age):
            return f"{name} = {figure_text(used.name, value, '')} ({span_text(age, words)})"
        case Idle():
            return f"{name} = {words('idle')}"
        case Missing(why):
            return f"{name}: {words('missing', why=words.phrase(why.value))}"
