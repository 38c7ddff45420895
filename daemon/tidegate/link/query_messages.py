"""The question and the answer of `/v1/query`, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tidegate.model.history import Across, Aggregate, Label, Layer, Limits

LIMITS = Limits()
_Values = Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=LIMITS.series)]


class QueryForm(BaseModel):
    """What may be asked. A name that is not known is refused: it would be taken for another question."""

    model_config = ConfigDict(extra="forbid")

    metric: Annotated[str, Field(max_length=128, description="A series' name, such as queue_depth or gpu_utilization.")]
    since: Annotated[datetime | None, Field(description="Default: an hour before `until`.")] = None
    until: Annotated[datetime | None, Field(description="Default: now.")] = None
    step: Annotated[
        str | None, Field(max_length=12, description="Such as 30s, 5m, 1h; without one every sample as it was taken.")
    ] = None
    aggregate: Annotated[
        Aggregate | None, Field(description="Default: avg of a gauge, rate of a counter, p95 of a distribution.")
    ] = None
    across: Annotated[Across, Field(description="How the series of a group become one.")] = Across.SUM
    by: Annotated[list[Label] | None, Field(max_length=7, description="Group by these labels.")] = None
    all: Annotated[bool, Field(description="One line of all series together.")] = False
    host: _Values = []
    pool: _Values = []
    service: _Values = []
    engine: _Values = []
    gpu: _Values = []
    rank: _Values = []
    le: _Values = []


class LineShape(BaseModel):
    """One series, or one group of them."""

    labels: dict[Label, str]
    at: list[float] | None = None
    """Of a raw answer: Unix seconds of the samples."""
    values: list[float | None]
    """null is missing, never zero."""


class HistoryShape(BaseModel):
    """The answer: each value of a stepped one belongs to [at, at + step)."""

    metric: str
    aggregate: Aggregate | None
    """None of a raw answer."""
    since: datetime
    until: datetime
    step_seconds: int | None
    layer: Layer
    notes: list[str]
    at: list[float] | None
    """The starts of the steps in Unix seconds, common to all lines."""
    series: list[LineShape]
