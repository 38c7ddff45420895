"""`/v1/cost` and `/v1/cost/report`: what tokens cost. Reading needs no token, as for the status page."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict

from tidegate.link import answers
from tidegate.link import messages as m
from tidegate.link.controller_api import ControllerApi
from tidegate.link.cost_messages import CostForm, CostReportShape, report_shape
from tidegate.link.problems import RESPONSES, Refused
from tidegate.model.cost_report import Ask, Span

_LONGEST = timedelta(days=400)
_DEFAULT_SPAN = timedelta(hours=24)
_WEEK = timedelta(days=7)


class _Span(BaseModel):
    """A span of time to ask about. A name that is not known is refused: it would be taken for another span."""

    model_config = ConfigDict(extra="forbid")

    since: datetime | None = None
    until: datetime | None = None


def add_cost_routes(app: FastAPI, api: ControllerApi) -> None:
    """Mount the routes."""

    @app.get("/v1/cost", tags=["money"], responses=RESPONSES)
    def cost(span: Annotated[_Span, Query()]) -> m.CostsShape:
        """What each pool's tokens cost between two moments (default: the last 24 hours); at most 400 days."""
        end = _utc(span.until) or api.now()
        start = _utc(span.since) or end - _DEFAULT_SPAN
        return answers.costs(api.costs(*_checked(start, end)))

    @app.get("/v1/cost/report", tags=["money"], responses=RESPONSES)
    def report(form: Annotated[CostForm, Query()]) -> CostReportShape:
        """Costs grouped by anything, each with its status, its method and its unit price; at most 400 days."""
        today = datetime.combine(api.now().astimezone(UTC).date(), time(), UTC)
        end = _utc(form.until) or today
        start, end = _checked(_utc(form.since) or end - _WEEK, end)
        answer = api.cost_report(
            Span(start, end, form.billing, form.idle), Ask(tuple(dict.fromkeys(form.by)), form.basis, form.ledger)
        )
        return report_shape(answer, form, start, end)


def _checked(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    if not start < end <= start + _LONGEST:
        raise Refused(
            422, "`since` must be before `until`, by 400 days at most", "ask for less, or the other way round"
        )
    return start, end


def _utc(moment: datetime | None) -> datetime | None:
    """A time without a zone is taken as UTC; years that arithmetic cannot carry are refused."""
    if moment is None:
        return None
    if not 2000 <= moment.year < 2200:
        raise Refused(422, f"the year {moment.year} is out of range", "give a time between 2000 and 2199")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
