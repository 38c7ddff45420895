"""What the day came to, as data: figures from the gateway and from the controller, and the verdicts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.demo.fleet_history import Drop, Size
from tidegate.demo.verdicts import Facts, Verdict, verdicts
from tidegate.link.messages import StatusShape


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures as data, and the verdicts."""

    figures: dict[str, Any]
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """True when every promise was kept."""
        return all(verdict.ok for verdict in self.verdicts)

    def data(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        verdicts = [{"ok": verdict.ok, "text": verdict.text} for verdict in self.verdicts]
        return {"ok": self.ok, **self.figures, "verdicts": verdicts}


def summarize(facts: Facts) -> Summary:
    """Figures and verdicts of the day."""
    status = facts.fleet.last
    figures = {
        "day": facts.since.date().isoformat(),
        "speed": facts.speed,
        "requests": {
            "arrived": facts.counts.arrived,
            "finished": facts.counts.finished,
            "lost": facts.counts.lost,
            "outstanding": facts.counts.outstanding,
            "without_endpoint": facts.counts.waiting,
            "moved": facts.counts.moved,
        },
        "pools": {name: _path(path) for name, path in facts.fleet.sizes.items()},
        "tokens": {"by_gateway": facts.counts.tokens, "by_controller": round(facts.tokens)},
        "cost": facts.costs.model_dump(mode="json"),
        "billed": [each.model_dump(mode="json") for each in facts.billed],
        "alerts": [_drop(drop) for drop in facts.fleet.drops()],
        "webhooks": [
            {"at": found.at.isoformat(), "type": found.type, "verified": found.verified} for found in facts.deliveries
        ],
        "controller": _controller(status) if status else None,
    }
    return Summary(figures, tuple(verdicts(facts)))


def _path(path: Sequence[Size]) -> list[dict[str, Any]]:
    return [
        {"at": size.at.isoformat(), "ready": size.ready, "starting": size.starting, "leaving": size.leaving}
        for size in path
    ]


def _drop(drop: Drop) -> dict[str, Any]:
    return {
        "pool": drop.pool,
        "fired_at": drop.fired_at.isoformat(),
        "resolved_at": drop.resolved_at.isoformat() if drop.resolved_at else None,
        "value": drop.value,
        "baseline": drop.baseline,
        "summary": drop.summary,
    }


def _controller(status: StatusShape) -> dict[str, Any]:
    return {
        "ticks": sum(job.runs for job in status.jobs if job.name == "tick"),
        "failed_jobs": {job.name: job.failures for job in status.jobs if job.failures},
        "reports": status.summary.reports,
        "actions": status.summary.actions,
        "cut_requests": status.summary.cut_requests,
        "reports_dropped_by_agents": sum(host.spool_dropped for host in status.hosts),
    }
