"""`tidegate cost`: what tokens cost, by the bill where there is one, estimated where there is none yet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.remote import DEFAULT_URL, ControllerOption, client
from tidegate.model.allocation import IdlePolicy
from tidegate.model.charge import Ledger
from tidegate.model.cost_report import Basis, Dimension
from tidegate.runtime.errors import Permanent

if TYPE_CHECKING:
    from tidegate.link.cost_client import CostClient
    from tidegate.link.cost_messages import CostForm, CostReportShape, LineShape

_DIMENSIONS = ", ".join(Dimension)


Week = Annotated[str | None, typer.Option("--week", metavar="2026-W48", help="An ISO week.")]
Month = Annotated[str | None, typer.Option("--month", metavar="2026-11", help="A month.")]
From = Annotated[str | None, typer.Option("--from", metavar="2026-11-23", help="From this day or moment on.")]
To = Annotated[str | None, typer.Option("--to", metavar="2026-11-30", help="Up to this one, exclusive.")]
By = Annotated[str, typer.Option("--by", help=f"Group by any of: {_DIMENSIONS}.")]
BasisOption = Annotated[Basis, typer.Option("--basis", help="What unit prices are taken over.")]
LedgerOption = Annotated[Ledger, typer.Option("--ledger", help="Accrual (effective) or cash (billed).")]
Billing = Annotated[bool, typer.Option("--billing", help="By billing period: what the invoices say.")]
Idle = Annotated[IdlePolicy | None, typer.Option("--idle", help="Who pays for GPUs that nothing held.")]
Before = Annotated[
    str | None, typer.Option("--before", metavar="2026-W47", help="Compare with this week, month, day or span.")
]
Against = Annotated[
    str | None, typer.Option("--against", metavar="PROVIDER/MODEL", help="Compare with a hosted API's list price.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, exact amounts.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, exact amounts.")]
Focus = Annotated[bool, typer.Option("--focus", help="Print the allocation as FOCUS 1.3 rows.")]


def cost(
    week: Week = None,
    month: Month = None,
    since: From = None,
    until: To = None,
    by: By = "pool",
    basis: BasisOption = Basis.ALLOCATION,
    ledger: LedgerOption = Ledger.EFFECTIVE,
    billing: Billing = False,
    idle: Idle = None,
    before: Before = None,
    against: Against = None,
    as_json: Json = False,
    as_csv: Csv = False,
    as_focus: Focus = False,
    controller: ControllerOption = DEFAULT_URL,
) -> None:
    """Show what tokens cost. Without a span: the last seven whole days."""
    from tidegate.cli import cost_view
    from tidegate.link.cost_client import CostClient
    from tidegate.link.cost_messages import CostForm

    _one_form(as_json, as_csv, as_focus)
    asked = CostClient(client(controller, None))
    start, end = _span(week, month, since, until)
    form = CostForm(since=start, until=end, by=_dimensions(by), basis=basis, ledger=ledger, billing=billing, idle=idle)
    found = asked.report(form.model_copy(update={"lines": as_focus}))
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    elif as_csv:
        typer.echo(cost_view.csv_text(found), nl=False)
    elif as_focus:
        _print_focus(found.lines)
    else:
        _print(cost_view.report_lines(found))
    _compare(asked, form, found, before, against, apart=as_json or as_csv or as_focus)


def _compare(
    asked: CostClient, form: CostForm, found: CostReportShape, before: str | None, against: str | None, *, apart: bool
) -> None:
    """Beside another window, and beside a hosted API."""
    from tidegate.cli import cost_view
    from tidegate.cli.hosted_prices import hosted_price
    from tidegate.cli.spans import named_span
    from tidegate.cost.compare import change

    if before is not None:
        first, last = named_span(before)
        earlier = asked.report(form.model_copy(update={"since": first, "until": last}))
        _print(cost_view.change_lines(change(cost_view.window(earlier), cost_view.window(found))), apart=apart)
    if against is not None:
        _print(cost_view.hosted_lines(hosted_price(against, found.until), found), apart=apart)


def _one_form(*asked: bool) -> None:
    if sum(asked) > 1:
        raise Permanent("--json, --csv and --focus are three forms of one answer: choose one")


def _print(lines: Iterable[str], *, apart: bool = False) -> None:
    """Lines for people; `apart` from what a program reads on stdout."""
    for line in lines:
        typer.echo(line, err=apart)


def _span(
    week: str | None, month: str | None, since: str | None, until: str | None
) -> tuple[datetime | None, datetime | None]:
    from tidegate.cli.spans import moment, named_span

    named = [each for each in (week, month) if each is not None]
    if len(named) + (since is not None or until is not None) > 1:
        raise Permanent("give one span: --week, --month, or --from and --to")
    if named:
        return named_span(named[0])
    return (moment(since) if since else None), (moment(until) if until else None)


def _dimensions(text: str) -> list[Dimension]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Dimension)]
    if unknown:
        raise Permanent(f"--by {unknown[0]}: choose from {_DIMENSIONS}")
    return [Dimension(name) for name in names]


def _print_focus(lines: Iterable[LineShape]) -> None:
    from tidegate.cost.focus import COLUMNS, focus_rows
    from tidegate.link.cost_client import line_of

    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(focus_rows(line_of(each) for each in lines))
