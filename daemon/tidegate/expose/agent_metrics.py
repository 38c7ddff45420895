"""The agent's snapshot as metric families, rendered at scrape time; a figure that is missing is an absent series."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client.core import Metric

from tidegate.expose.engine_metrics import add_engine, retry_rate, tokens_per_gpu_per_second
from tidegate.expose.exposition import Exposition, render
from tidegate.expose.families import Role
from tidegate.expose.gpu_metrics import add_gpus
from tidegate.expose.host_metrics import add_machine
from tidegate.model.fleet import ReplicaState
from tidegate.model.snapshot import AgentSnapshot

__all__ = ["AgentCollector", "render", "retry_rate", "tokens_per_gpu_per_second"]


class AgentCollector:
    """Yields the families of the latest snapshot.

    A snapshot that is no longer `fresh` yields only what the agent knows of itself: old figures are never served as
    live ones.
    """

    def __init__(
        self,
        snapshot: Callable[[], AgentSnapshot | None],
        fresh: Callable[[AgentSnapshot], bool] = lambda _: True,
    ) -> None:
        self._snapshot = snapshot
        self._fresh = fresh

    def collect(self) -> Iterable[Metric]:
        """The families; none before the first collection."""
        out = Exposition(Role.AGENT)
        snapshot = self._snapshot()
        if snapshot is not None:
            _agent(out, snapshot)
            if self._fresh(snapshot):
                add_machine(out, snapshot.reading.machine)
                add_gpus(out, snapshot.reading.gpus)
                for reading in snapshot.reading.engines:
                    add_engine(out, snapshot, reading)
        return out.metrics()


def _agent(out: Exposition, snapshot: AgentSnapshot) -> None:
    out.add("tidegate_agent_info", {"host": snapshot.reading.host}, 1.0)
    out.add("tidegate_build_info", {"version": snapshot.version}, 1.0)
    out.add("tidegate_config_last_reload_successful", {}, float(snapshot.config_reload_ok))
    out.add("tidegate_config_last_reload_success_timestamp_seconds", {}, _stamp(snapshot.config_loaded_at))
    out.add("tidegate_collections_total", {}, snapshot.collections)
    out.add("tidegate_collection_duration_seconds", {}, snapshot.collect_seconds)
    out.add("tidegate_last_collection_timestamp_seconds", {}, _stamp(snapshot.collected_at))
    spool, link = snapshot.spool, snapshot.link
    out.add("tidegate_spool_reports", {}, spool.reports)
    out.add("tidegate_spool_bytes", {}, spool.size_bytes)
    out.add("tidegate_spool_dropped_total", {}, spool.dropped)
    if spool.oldest_at is not None:
        age = (snapshot.collected_at - spool.oldest_at).total_seconds()
        out.add("tidegate_spool_oldest_age_seconds", {}, max(0.0, age))
    if link.configured:
        out.add("tidegate_link_failures_total", {}, link.failures)
        out.add("tidegate_link_last_success_timestamp_seconds", {}, _stamp(link.last_success))
        out.add("tidegate_clock_offset_seconds", {}, link.clock_offset_seconds)
    for source, found in snapshot.sources.items():
        out.add("tidegate_discovery_up", {"source": source.value}, float(found.ok))
        out.add("tidegate_discovered_engines", {"source": source.value}, found.engines)
    for replica, state in sorted(snapshot.replicas.items()):
        out.one_of("tidegate_replica_state", {"replica": replica}, "state", ReplicaState, state)


def _stamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
