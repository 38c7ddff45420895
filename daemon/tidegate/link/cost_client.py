"""The command line's end of /v1 for costs."""

from __future__ import annotations

from urllib.parse import urlencode

from tidegate.link.command_client import CommandClient, read
from tidegate.link.cost_messages import CostForm, CostReportShape, LineShape
from tidegate.model.allocation import Line, Place

_SECONDS = 600.0
"""Many days without a bill are estimated one after the other."""


class CostClient:
    """The costs that one controller knows."""

    def __init__(self, client: CommandClient) -> None:
        self._client = client

    def report(self, form: CostForm) -> CostReportShape:
        """A report."""
        asked = form.model_dump(mode="json", exclude_none=True)
        path = f"/v1/cost/report?{urlencode(asked, doseq=True)}"
        return read(CostReportShape, self._client.call("GET", path, seconds=_SECONDS))


def line_of(shape: LineShape) -> Line:
    """A line as it was before it went over the wire."""
    place = Place(**{name: getattr(shape, name) for name in Place._fields})
    return Line(place, shape.billed, shape.effective, shape.gpu_seconds)
