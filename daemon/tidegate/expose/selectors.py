"""What is asked of a Prometheus: selectors of our own families, a handful for the whole fleet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidegate.expose.read_back import read_back, silent_hosts
from tidegate.expose.sample_cells import ABOUT, AGENT_INFO, COUNTERS, HISTOGRAMS, MISSING, USAGE_COUNTERS
from tidegate.model.missing import Gap
from tidegate.model.reading import HostName
from tidegate.model.scrape import PrometheusPlace, SampleSeries, Scraped

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


class ScrapeWords:
    """The language between us and a Prometheus: what is asked of it, and what its samples mean."""

    def __init__(self, place: Callable[[], PrometheusPlace]) -> None:
        """`place` is read at every call: a reload counts at once."""
        self._place = place

    def tick(self) -> tuple[str, ...]:
        """The selectors that a tick rests on."""
        return tick_selectors(self._place().matchers)

    def usage(self) -> str:
        """The selector that token usage is made of."""
        return usage_selector(self._place().matchers)

    def earliest(self, span: str) -> str:
        """An expression for when the first sample of an agent within `span` was taken, in unix seconds."""
        return f"min(min_over_time(timestamp({selector([AGENT_INFO], self._place().matchers)})[{span}:5m]))"

    def targets(self, span: str) -> tuple[str, str]:
        """The expressions for which targets are agents, and which of them answer."""
        return target_queries(self._place().matchers, span)

    def read(self, found: Iterable[SampleSeries]) -> Scraped:
        """The readings that the samples were."""
        return read_back(found, self._place().host_label)

    def silent(self, agents: Iterable[SampleSeries], up: Iterable[SampleSeries]) -> Mapping[HostName, Gap]:
        """The hosts of which no target answered its last scrape."""
        return silent_hosts(agents, up, self._place().host_label)
