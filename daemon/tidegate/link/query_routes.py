"""`/v1/query`: the history of any series, and the values that its labels have."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pydantic_core
from fastapi import FastAPI, Query, Response

from tidegate.link.controller_api import ControllerApi
from tidegate.link.problems import RESPONSES, Refused
from tidegate.link.query_messages import LIMITS, HistoryShape, QueryForm
from tidegate.model.history import METRICS, Aggregate, History, Kind, Label, Question, metric

_DEFAULT_SPAN = timedelta(hours=1)
_DURATION = re.compile(r"(\d{1,7})(s|m|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, None: 1}
_USUAL = {Kind.GAUGE: Aggregate.AVG, Kind.COUNTER: Aggregate.RATE, Kind.DISTRIBUTION: Aggregate.P95}


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
