"""Where samples come from: the agents' reports in our store, or a Prometheus that scrapes the agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate.controller.head import Head
from tidegate.controller.left_out import LeftOut
from tidegate.controller.measured import Measured
from tidegate.controller.measured_history import MeasuredHistory
from tidegate.controller.measured_usage import MeasuredUsage
from tidegate.controller.past_ports import Histories
from tidegate.controller.ports import Recent, Reports, Usage
from tidegate.controller.running_config import RunningConfig
from tidegate.controller.state import State
from tidegate.expose.history_words import PastWords
from tidegate.expose.selectors import ScrapeWords
from tidegate.model.missing import Gap
from tidegate.model.reading import HostName
from tidegate.model.scrape import PrometheusPlace, Source
from tidegate.store.measured import MeasuredBuckets
from tidegate.store.store import Store


@dataclass(frozen=True, slots=True)
class MetricSource:
    """Everything that reads or writes samples."""

    reports: Reports
    usage: Usage
    histories: Histories
    recent: Recent
    silent: Callable[[], Mapping[HostName, Gap]] = dict
    poll: Callable[[datetime], None] | None = None
    """What has to be done again and again for `recent` to be recent."""


def metric_source(current: RunningConfig, store: Store, usage: Usage, state: State, head: Head) -> MetricSource:
    """The source that the configuration names; `head` is the recent past of the agents' reports, `usage` theirs."""
    if current.settings.controller.source is Source.AGENTS:
        return MetricSource(store.reports, usage, store.histories, head)
    from tidegate.observe.prometheus import Prometheus  # its library takes memory that only this source needs

    def place() -> PrometheusPlace:
        return current.settings.prometheus

    samples, words = Prometheus(place), ScrapeWords(place)
    measured = Measured(samples, words, lambda: current.settings.controller.view_window, state.offsets)
    state.source = measured.state
    buckets = MeasuredBuckets(store.database, store.fence)
    return MetricSource(
        reports=LeftOut(),
        usage=MeasuredUsage(samples, words, buckets, store.usage),
        histories=MeasuredHistory(samples, PastWords(place)),
        recent=measured,
        silent=measured.silent,
        poll=measured.poll,
    )
