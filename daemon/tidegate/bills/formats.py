"""Every format, and which one a file is: by its columns, never by its name."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.bills import (
    alibaba,
    azure,
    cur,
    focus,
    focus_datasets,
    gcp,
    huawei,
    oci,
    own,
    runpod,
    tencent,
    volcengine,
)
from tidegate.bills.columns import Columns
from tidegate.bills.format import Format
from tidegate.bills.parts import Part
from tidegate.bills.wishes import AUTO
from tidegate.runtime.errors import Permanent

_HEADER_WITHIN = 20

FORMATS: tuple[Format, ...] = (
    focus_datasets.BILLING_PERIOD,
    focus_datasets.INVOICE_DETAIL,
    focus_datasets.CONTRACT_COMMITMENT,
    cur.CUR,
    gcp.GCP,
    azure.AMORTIZED,
    azure.ACTUAL,
    focus.FOCUS,
    focus.COREWEAVE,
    oci.OCI,
    alibaba.ALIBABA,
    tencent.TENCENT,
    volcengine.VOLCENGINE,
    huawei.HUAWEI,
    runpod.RUNPOD,
    own.OWN,
)
"""In the order of asking: the first that fits."""
_BY_NAME = {format_.name: format_ for format_ in FORMATS}
NAMES = (AUTO, *_BY_NAME)


def choose(
    rows: Sequence[Sequence[str]], source: str, part: Part, *, growing: bool = False
) -> tuple[Format, Columns, int]:
    """The format, the columns and which row is the header; raises Permanent with what was found.

    Consoles put a few lines before the header; it is looked for in the first twenty.
    """
    if source not in NAMES:
        raise Permanent(f"--source {source}: there is no such format; known: {', '.join(NAMES)}")
    candidates = FORMATS if source == AUTO else (_BY_NAME[source],)
    for at, row in enumerate(rows[:_HEADER_WITHIN]):
        columns = Columns(row, growing=growing)
        for format_ in candidates:
            if format_.fits(columns):
                chosen = azure.kind_of(columns, rows[at + 1 :], part.hints) if _asks(format_, source) else format_
                return chosen, columns, at
    raise Permanent(f"{part.name}: {_why(rows, source)}")


def _asks(format_: Format, source: str) -> bool:
    return source == AUTO and format_ in (azure.AMORTIZED, azure.ACTUAL)


def _why(rows: Sequence[Sequence[str]], source: str) -> str:
    if not rows:
        return "the file has no rows"
    header = ", ".join(rows[0])[:200]
    if source == AUTO:
        return f"no known bill has these columns: {header}; --source names a format: {', '.join(NAMES[1:])}"
    needs = "; ".join(" or ".join(group) for group in _BY_NAME[source].needs)
    return f"not a {_BY_NAME[source].title}: it needs the columns {needs}; found: {header}"
