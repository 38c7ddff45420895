"""What was seen of the fleet in the course of the day, gathered from one status after the other. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.link.messages import AlertShape, DecisionShape, StatusShape
from tidegate.model.alert import AlertPhase


@dataclass(frozen=True, slots=True)
class Size:
    """How large a pool was from a moment on."""

    at: datetime
    ready: int
    starting: int
    leaving: int

    @property
    def held(self) -> int:
        """Replicas that hold GPUs."""
        return self.ready + self.starting + self.leaving


@dataclass(frozen=True, slots=True)
class Drop:
    """One alert from firing to its end."""

    pool: str
    fired_at: datetime
    resolved_at: datetime | None
    value: float | None
    baseline: float | None
    summary: str


class FleetHistory:
    """Sizes, decisions and alerts by the order in which they were seen."""

    def __init__(self) -> None:
        self.last: StatusShape | None = None
        self.sizes: dict[str, list[Size]] = {}
        """By pool, an entry for each change."""
        self._decisions: dict[int, DecisionShape] = {}
        self._drops: dict[tuple[str, datetime], Drop] = {}

    def see(self, status: StatusShape) -> None:
        """Take in one status."""
        self.last = status
        for pool in status.pools:
            path = self.sizes.setdefault(pool.name, [])
            now = (pool.ready, pool.starting, pool.leaving)
            if not path or (path[-1].ready, path[-1].starting, path[-1].leaving) != now:
                path.append(Size(status.tick_at or status.now, *now))
        self._decisions.update({found.id: found for found in status.decisions if found.id is not None})
        for alert in status.alerts:
            self._see_alert(alert)

    def decisions(self) -> Sequence[DecisionShape]:
        """Every decision that changed something, oldest first."""
        return [self._decisions[number] for number in sorted(self._decisions)]

    def drops(self) -> Sequence[Drop]:
        """Every alert that fired, in order."""
        return sorted(self._drops.values(), key=lambda drop: drop.fired_at)

    def peak(self, pool: str) -> Size | None:
        """The moment at which the pool had the most ready replicas; None when it was never seen."""
        return max(self.sizes.get(pool, []), key=lambda size: size.ready, default=None)

    def _see_alert(self, alert: AlertShape) -> None:
        if alert.starts_at is None or alert.phase not in (AlertPhase.FIRING, AlertPhase.RESOLVED):
            return
        key = (alert.fingerprint, alert.starts_at)
        before = self._drops.get(key)
        resolved = (alert.ends_at or alert.since) if alert.phase is AlertPhase.RESOLVED else None
        self._drops[key] = Drop(
            pool=alert.labels.get("pool", ""),
            fired_at=alert.starts_at,
            resolved_at=resolved,
            value=before.value if before else alert.value,
            baseline=before.baseline if before else alert.baseline,
            summary=before.summary if before else alert.annotations.get("summary", ""),
        )
