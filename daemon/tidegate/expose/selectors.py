"""What is asked of a Prometheus: selectors of our own families, a handful for the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.expose.sample_cells import ABOUT, AGENT_INFO, COUNTERS, HISTOGRAMS, MISSING, USAGE_COUNTERS

Matchers = Sequence[tuple[str, str]]

_GPUS = (
    "tidegate_gpu_up",
    "tidegate_gpu_info",
    "tidegate_gpu_utilization",
    "tidegate_gpu_memory_used_bytes",
    "tidegate_gpu_memory_total_bytes",
    "tidegate_gpu_power_watts",
    "tidegate_gpu_energy_joules_total",
)
"""Of a GPU's figures those that a decision or the cost may look at."""


def selector(names: Iterable[str], matchers: Matchers, *more: str) -> str:
    """A selector of all series of these names that have the labels; `more` stands in it as written."""
    wanted = sorted(names)
    first = f'__name__="{wanted[0]}"' if len(wanted) == 1 else f'__name__=~"{"|".join(wanted)}"'
    return "{" + ",".join([first, *(f"{label}={_quoted(value)}" for label, value in matchers), *more]) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def tick_selectors(matchers: Matchers) -> tuple[str, ...]:
    """What a tick has to know, in a handful of queries; the first names the scrapes that the others belong to."""
    return (
        selector(ABOUT, matchers),
        selector(MISSING, matchers, 'reason!="not_supported"'),
        selector(COUNTERS, matchers),
        selector(HISTOGRAMS, matchers),
        selector((*_GPUS, "tidegate_gpu_figure_missing"), matchers, 'figure=~"utilization|"'),
    )


def usage_selector(matchers: Matchers) -> str:
    """What token usage is made of."""
    about = (
        AGENT_INFO,
        "tidegate_last_collection_timestamp_seconds",
        "tidegate_collection_duration_seconds",
        "tidegate_nvml_up",
        "tidegate_engine_state",
        "tidegate_engine_ranks",
        "tidegate_engine_start_time_seconds",
    )
    return selector((*about, *USAGE_COUNTERS), matchers)


def target_queries(matchers: Matchers, span: str) -> tuple[str, str]:
    """Two expressions: the targets that were agents within `span`, and whether each answered its last scrape."""
    agents = f"last_over_time({selector([AGENT_INFO], matchers)}[{span}])"
    up = selector(["up"], matchers)
    return agents, f"{up} and on (job, instance) {agents}"
