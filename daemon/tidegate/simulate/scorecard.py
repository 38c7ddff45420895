"""The scorecard: one row for each run, the same figures everywhere they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.simulate.outcome import Outcome

HEADER = (
    "policy",
    "faults",
    "start",
    "SLO",
    "GPU hours",
    "of them burst",
    "x bound",
    "cost",
    "reversals/day",
    "wasted starts",
    "lost",
    "peak GPUs",
    "blind scale-ins",
)


@dataclass(frozen=True, slots=True)
class Score:
    """The runs of one kind, a seed each, with the circumstances that an outcome does not tell."""

    outcomes: tuple[Outcome, ...]
    faults: str
    start_seconds: float
    bound_hours: float | None = None
    """GPU hours of the clairvoyant schedule, a mean over the same seeds."""

    @property
    def policy(self) -> str:
        """The planner's name."""
        return self.outcomes[0].planner

    def mean(self, figure: str) -> float:
        """A figure's mean over the seeds."""
        return sum(float(getattr(outcome, figure)) for outcome in self.outcomes) / len(self.outcomes)

    @property
    def attainment(self) -> float:
        """The worst seed's: a promise is kept by every run or not at all."""
        return min(outcome.attainment for outcome in self.outcomes)

    @property
    def ratio(self) -> float | None:
        """Mean GPU hours over the bound's."""
        return self.mean("gpu_hours") / self.bound_hours if self.bound_hours else None

    def row(self) -> tuple[str, ...]:
        """The cells under `HEADER`."""
        lost = sum(outcome.lost_in_drain for outcome in self.outcomes)
        blind = sum(outcome.blind_shrinks for outcome in self.outcomes)
        return (
            self.policy,
            self.faults,
            f"{self.start_seconds:g} s",
            f"{self.attainment * 100:.2f} %",
            f"{self.mean('gpu_hours'):.1f}",
            f"{self.mean('burst_gpu_hours'):.1f}",
            f"{self.ratio:.2f}" if self.ratio else "-",
            f"{self.mean('cost'):.0f}",
            f"{self.mean('reversals_per_day'):.0f}",
            f"{self.mean('wasted_share') * 100:.0f} %",
            str(lost),
            f"{max(outcome.peak_gpus for outcome in self.outcomes)}",
            str(blind),
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {
            "policy": self.policy,
            "faults": self.faults,
            "start_seconds": self.start_seconds,
            "attainment": self.attainment,
            "gpu_hours": self.mean("gpu_hours"),
            "bound_gpu_hours": self.bound_hours,
            "ratio_to_bound": self.ratio,
            "runs": [outcome.as_json() for outcome in self.outcomes],
        }


def markdown(scores: Sequence[Score]) -> str:
    """The rows as a table."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    return "\n".join([*lines, *("| " + " | ".join(score.row()) + " |" for score in scores)])
