"""The fleet as a page for people: plain HTML without scripts, in English or Chinese, from one overview."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from tidegate.expose.amounts import ago, clock_text, count_text, figure_text, money_text, span_text
from tidegate.expose.words import LANGUAGES, Words, choose_language
from tidegate.model.decision import UsedSignal
from tidegate.model.fleet import LEAVING_STATES, STARTING_STATES, Idle, ReplicaState, Value
from tidegate.model.overview import Overview, PoolOverview
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
    "cost_per_million_tokens",
)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure on the page: its value, or why there is none."""

    label: str
    text: str
    missing: str
    note: str
    """What makes a value incomplete, or its state."""


def render(overview: Overview, now: datetime, ready: tuple[bool, str], language: str) -> str:
    """The whole page in the language, at `now`."""
    words = Words(language)
    page = _environment().get_template("status.html")
    return page.render(
        o=overview,
        w=words,
        now=now,
        ready=ready[0],
        ready_why=ready[1],
        refresh=REFRESH_SECONDS,
        languages=LANGUAGES,
        ago=lambda moment: ago(moment, now, words),
        clock=clock_text,
        count=count_text,
        money=money_text,
        span=lambda span: span_text(span, words),
        figures=lambda pool: figure_rows(pool, overview.currency, words),
        boxes=boxes,
        cost_lines=[*overview.cost.pools, overview.cost.burst, overview.cost.total] if overview.cost else [],
        signal=lambda used: signal_text(used, words),
        states=lambda pool: state_counts(pool, overview, words),
    )


def page(overview: Overview, now: datetime, ready: tuple[bool, str], asked: str | None, accept_language: str) -> str:
    """The page in the language asked for, or the browser's."""
    return render(overview, now, ready, choose_language(asked, accept_language))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tidegate.expose"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def figure_rows(pool: PoolOverview, currency: str, words: Words) -> list[FigureRow]:
    """The pool's figures in the page's order; an absent one says why."""
    rows = []
    for name in _FIGURES:
        value: float | None = getattr(pool.figures, name)
        gap = words.phrase(pool.gaps.get(name, "not_reported"))
        note = words.phrase(pool.gaps[name]) if name in pool.gaps else ""
        if name == "cost_per_million_tokens":
            note = words("estimated")
        label = words(f"figure.{name}")
        if value is None:
            rows.append(FigureRow(label, "", words("missing", why=gap), ""))
        else:
            rows.append(FigureRow(label, figure_text(name, value, currency), "", note))
    return rows


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
