"""`/v1/query`: the history of any series, and the values that its labels have."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pydantic_core
from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.link.controller_api import ControllerApi
from tidegate.link.problems import RESPONSES, Refused
from tidegate.model.history import (
    METRICS,
    Across,
    Aggregate,
    History,
    Kind,
    Label,
    Layer,
    Limits,
    Question,
    metric,
)

LIMITS = Limits()
_DEFAULT_SPAN = timedelta(hours=1)
_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, None: 1}
_USUAL = {Kind.GAUGE: Aggregate.AVG, Kind.COUNTER: Aggregate.RATE, Kind.DISTRIBUTION: Aggregate.P95}
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


def add_query_routes(app: FastAPI, api: ControllerApi) -> None:
    """Mount the routes."""

    @app.get("/v1/query", tags=["history"], responses=RESPONSES, response_model=HistoryShape)
    def query(form: Annotated[QueryForm, Query()]) -> Response:
        """The history of a metric's series: every sample, or one value a step; of at most 1,000 series."""
        try:
            answer = api.query(question_of(form, api.now()), LIMITS)
        except ValueError as error:
            raise Refused(422, str(error), "ask for fewer series, a shorter time or a wider step") from error
        return Response(rendered(answer), media_type="application/json")

    @app.get("/v1/metrics", tags=["history"], responses=RESPONSES)
    def metrics() -> dict[str, Kind]:
        """Every metric whose history can be asked for, and what its values are."""
        return {name: found.kind for name, found in sorted(METRICS.items())}


def question_of(form: QueryForm, now: datetime) -> Question:
    """What is asked; raises ValueError with what is wrong."""
    until = _utc(form.until) or now
    found = metric(form.metric)
    named = {label: frozenset(getattr(form, label.value)) for label in Label}
    by = () if form.all else None if form.by is None else tuple(form.by)
    return Question(
        metric=found,
        since=_utc(form.since) or until - _DEFAULT_SPAN,
        until=until,
        step=_duration(form.step),
        aggregate=form.aggregate or _USUAL[found.kind],
        where={label: values for label, values in named.items() if values},
        by=by,
        across=form.across,
    ).checked()


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if not 2000 <= moment.year < 2200:
        raise ValueError(f"the year {moment.year} is out of range: give a time between 2000 and 2199")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"`step` {text!r} is no duration: write such as 30s, 5m, 1h or 1d")
    return timedelta(seconds=int(found.group(1)) * _SECONDS[found.group(2)])


def rendered(answer: History) -> bytes:
    """The answer as `HistoryShape` in JSON, without a model for each of its values."""
    question, stepped = answer.question, answer.step is not None
    lines = [
        {
            "labels": {label.value: value for label, value in line.labels.items()},
            "at": None if stepped else line.at,
            "values": line.values,
        }
        for line in answer.lines
    ]
    shared = (answer.lines[0].at if answer.lines else ()) if stepped else None
    return pydantic_core.to_json(
        {
            "metric": str(question.metric),
            "aggregate": question.aggregate.value if stepped else None,
            "since": question.since,
            "until": question.until,
            "step_seconds": int(answer.step.total_seconds()) if answer.step is not None else None,
            "layer": answer.layer.value,
            "notes": answer.notes,
            "at": shared,
            "series": lines,
        }
    )
