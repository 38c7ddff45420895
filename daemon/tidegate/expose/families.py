"""The one table of our metrics: every family that either role exports, and nothing that none does.

Names are a public contract: `tests/golden/families.txt` pins them, `docs/metrics.md` is generated from here. Base
units, `_total` for counters, ratios as 0..1. A missing figure is an absent series, never a zero; a `*_missing` family
says why. Label sets are bounded by the configuration and the hardware, never by traffic.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.expose import engine_families
from tidegate.expose.family import ENGINE, GPU, POOL, Family, Kind, Role
from tidegate.expose.family import counter as _c
from tidegate.expose.family import gauge as _g
from tidegate.expose.gpu_families import GPU_FAMILIES
from tidegate.expose.host_families import HOST_FAMILIES

__all__ = ["ENGINE", "FAMILIES", "GPU", "POOL", "SECTIONS", "Family", "Kind", "Role"]


def _q(stem: str, text: str, *labels: str, role: Role = Role.AGENT) -> Family:
    return Family(f"tidegate_{stem}_window_seconds", Kind.SUMMARY, text, labels, role)


_BOTH = (
    _g("build_info", "1; the running version.", "version", role=Role.BOTH),
    _g("config_last_reload_successful", "1 when the last configuration (re)load was good.", role=Role.BOTH),
    _g("config_last_reload_success_timestamp_seconds", "When the running configuration was loaded.", role=Role.BOTH),
)

_HOST = (
    _g("agent_info", "1; the name that this host is enrolled by.", "host"),
    _g("collection_duration_seconds", "How long the last collection of GPUs and engines took."),
    _g("last_collection_timestamp_seconds", "When the last collection ended."),
    _c("collections", "Collections since the agent's start."),
    _g("spool_reports", "Reports that wait on disk for a controller."),
    _g("spool_bytes", "Size of the spool on disk."),
    _g("spool_oldest_age_seconds", "Age of the oldest waiting report at the last collection; absent when none waits."),
    _c("spool_dropped", "Reports given up because the spool was full or they were too old, since its creation."),
    _c("link_failures", "Failed deliveries to a controller since the agent's start; absent without a controller."),
    _g("link_last_success_timestamp_seconds", "When a controller last took a report."),
    _g("discovery_up", "1 when the last look for engines in files or among processes was good, else 0 and the last "
       "list stays.", "source"),
    _g("discovered_engines", "Engines that this source gave at the last look.", "source"),
    _g("replica_state", "1 for the state that a unit started for the controller is in, 0 for the others.",
       "replica", "state"),
)  # fmt: skip


def _p(name: str, text: str, *labels: str) -> Family:
    return _g(f"pool_{name}", text, *POOL, *labels, role=Role.CONTROLLER)


_POOLS = (
    _p("info", "1; the pool's service, kind and role.", "service", "kind", "role"),
    _p("mode", "1 for the pool's mode (advise, act, paused), 0 for the others.", "mode"),
    _p("replicas", "Replicas in each state, as observed.", "state"),
    _p("target_replicas", "Replicas that the last decision aims at, after every guard."),
    _p("wanted_replicas", "Replicas that the policy asked for, before any guard."),
    _p("limited", "1 for each guard that bound the last decision.", "limit"),
    _p("running_requests", "Requests that the pool's engines work on."),
    _p("queue_depth", "Requests that wait in the pool's engines."),
    _p("gpu_utilization", "Mean GPU utilisation of the pool, 0..1."),
    _p("kv_cache_usage", "Share of the KV cache in use, 0..1."),
    _p("kv_cache_hit_rate", "KV prefix cache hits over queries, 0..1; absent without traffic."),
    _p("prompt_tokens_per_second", "Prompt tokens, cached ones included."),
    _p("generation_tokens_per_second", "Generated tokens."),
    _p("tokens_per_gpu_per_second", "Prompt (cached included) and generated tokens per GPU that the pool holds."),
    _q("pool_ttft", "Time to first token of the pool, over the tick's window.", *POOL, role=Role.CONTROLLER),
    _q("pool_tpot", "Time per output token of the pool, over the tick's window.", *POOL, role=Role.CONTROLLER),
    _q("pool_e2e_latency", "End-to-end latency of the pool, over the tick's window.", *POOL, role=Role.CONTROLLER),
    _g("cost_per_million_tokens", "Cost of a million tokens over the trailing hour, in the currency.",
       *POOL, "state", "currency", role=Role.CONTROLLER),
    _g("billed_cost_per_million_tokens", "Cost of a million tokens over the last days that a bill speaks of, a week at "
       "most.", *POOL, "state", "currency", role=Role.CONTROLLER),
    _g("billed_cost", "What those days cost by the bill: by pool, and what is of no pool by kind.",
       *POOL, "line", "state", "currency", role=Role.CONTROLLER),
    _g("billed_until_timestamp_seconds", "The end of the last day that a bill speaks of.", role=Role.CONTROLLER),
)  # fmt: skip


def _k(name: str, text: str, *labels: str) -> Family:
    return _g(name, text, *labels, role=Role.CONTROLLER)


def _n(name: str, text: str, *labels: str) -> Family:
    return _c(name, text, *labels, role=Role.CONTROLLER)


_CONTROL = (
    _k("leading", "1 when this controller leads the fleet, 0 when it stands by or cannot know."),
    _k("leader_epoch", "The number of the term that runs, with the address of the controller that leads.", "leader"),
    _n("decisions", "Decisions written, one for each pool and tick.", "pool"),
    _n("actions", "Actions carried out; outcome is applied or failed.", "kind", "outcome"),
    _n("reports", "Reports by fate: stored, duplicate, left_out (a Prometheus is the source), malformed, "
       "unauthorized, too_large, failed; unseen (stored, but too late for a tick's memory).", "result"),
    _n("ticks", "Ticks by result: ok or failed.", "result"),
    _k("tick_duration_seconds", "How long the last tick took."),
    _k("tick_last_success_timestamp_seconds", "When a tick last went through."),
    _n("job_runs", "Runs of each job beside the tick.", "job"),
    _n("job_failures", "Failed runs of each job beside the tick.", "job"),
    _k("job_last_success_timestamp_seconds", "When each job last went through.", "job"),
    _k("job_duration_seconds", "How long each job's last run took.", "job"),
    _k("host_last_seen_age_seconds", "How long ago each enrolled host last reported.", "host"),
    _k("host_series_left_out", "Series of each host that are not kept: it shows too many new ones in a day.", "host"),
    _k("host_up", "1 when the host reported lately enough to be believed, else 0.", "host"),
    _k("source_hosts", "Hosts of which the Prometheus that is read has readings; absent while it does not answer, and "
       "where agents report instead."),
    _k("source_samples_dropped", "Samples of its last answer that became no figure: not_finite, conflicting or "
       "malformed.", "reason"),
    _k("alerts_firing", "Alerts that fire, for each rule.", "rule"),
    _n("notifications", "Notices by channel and result: delivered, retried, given_up.", "channel", "result"),
)  # fmt: skip

SECTIONS: Mapping[str, tuple[Family, ...]] = {
    "Both roles": _BOTH,
    "Agent: itself": _HOST,
    "Agent: host": HOST_FAMILIES,
    "Agent: GPUs": GPU_FAMILIES,
    "Agent: engines": engine_families.ABOUT,
    "Agent: engine figures": engine_families.FIGURES,
    "Agent: gateways": engine_families.GATEWAY,
    "Controller: pools": _POOLS,
    "Controller: itself": _CONTROL,
}
"""Every family, by what it is about, in the order of the documentation."""

FAMILIES: Mapping[str, Family] = {family.name: family for section in SECTIONS.values() for family in section}
"""Every family by the name as scraped, in the same order."""
