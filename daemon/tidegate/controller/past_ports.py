"""What the controller needs to answer questions about the past, and to keep what boards read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from tidegate.model.history import History, Label, Limits, Metric, Question
from tidegate.model.recent import EngineFigures, GpuFigures


class Histories(Protocol):
    """The past of any series, for the review, the cost, `/v1/query` and exports."""

    def query(self, question: Question, limits: Limits = ...) -> History:
        """The answer, from the coarsest layer that is fine enough and still kept.

        A value is None where no sample was good. Counters give increases and rates, with resets taken out, never
        negative. Raises ValueError when the question makes no sense, LimitError (a ValueError) beyond the limits, and
        Transient while the source is away.
        """
        ...

    def labels(self, metric: Metric, label: Label, since: datetime, until: datetime) -> Sequence[str]:
        """The values that a label has among the metric's series with samples in the time, sorted."""
        ...


class Figures(Protocol):
    """What boards read: newest figures of engines and GPUs, and rollups of pools."""

    def record(self, engines: Sequence[EngineFigures], gpus: Sequence[GpuFigures]) -> None:
        """Keep the figures of one moment."""
        ...

    def roll_up(self, now: datetime) -> int:
        """Bring the rollups of pools up to date; returns how many of their rows were written."""
        ...

    def prune(self, now: datetime, history: timedelta) -> Sequence[str]:
        """Drop what is too old; returns the names of the days that went."""
        ...
