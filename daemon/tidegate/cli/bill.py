"""`tidegate bill`: read bills, and keep them in the controller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.bill_version_view import details, difference_lines, quarantine_lines, snapshot_name, version_lines
from tidegate.cli.bill_view import bill_lines
from tidegate.cli.progress import progress_bar
from tidegate.cli.remote import DEFAULT_URL, ControllerOption, TokenOption, client
from tidegate.cli.standard_input import with_standard_input
from tidegate.runtime.errors import Permanent

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tidegate.bills.wishes import Wishes
    from tidegate.link.bill_client import BillClient
    from tidegate.link.bill_messages import BillShape
    from tidegate.model.price import Price

app = typer.Typer(help="The provider's bills: import, compare, close.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The provider's bills: import, compare, close."""


@app.command("import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Bill files, folders, zips, a delivery's manifest, or `-`.")
    ],
    source: Annotated[str, typer.Option(help="The format; auto tells it by the columns.")] = "auto",
    account: Annotated[
        str, typer.Option(help="The billing account that the files must be of, or are of where they name none.")
    ] = "",
    currency: Annotated[str, typer.Option(help="The currency (ISO 4217) of files that name none.")] = "",
    shard: Annotated[str, typer.Option(help="A name for one independent piece of a period.")] = "",
    prices: Annotated[
        Path | None, typer.Option(help="A price file, for bills that name quantities only (dry run).")
    ] = None,
    expect: Annotated[
        str,
        typer.Option(metavar="AMOUNT", help="What the invoice comes to, as in 'USD 1395.52': must be the rows' sum."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the files add up to.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Import although less is there than before.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Import bills: each billing period is replaced as a whole. A dry run needs no controller and no database."""
    wishes = _wishes(source, account, currency, shard, prices)
    if expect:
        wishes = _expecting(wishes, expect)
    if prices is not None and not dry_run:
        raise Permanent("--prices is for a dry run; `tidegate price import` gives prices to the controller")
    with with_standard_input(files) as given:
        if dry_run:
            bill = _read(given, wishes)
        else:
            from tidegate.cli.bill_import import imported

            bill = imported(controller, token_file, given, wishes, force=force)
    if as_json:
        typer.echo(bill.model_dump_json(indent=2))
    else:
        for line in bill_lines(bill):
            typer.echo(line)
    if dry_run and bill.tie is not None and bill.tie.difference:
        raise typer.Exit(1)


def _expecting(wishes: Wishes, text: str) -> Wishes:
    from tidegate.bills.expected import expected_of

    return replace(wishes, expected=expected_of(text))


def _wishes(source: str, account: str, currency: str, shard: str, prices: Path | None) -> Wishes:
    from tidegate.bills.wishes import AUTO, Wishes
    from tidegate.model.price import Prices

    if source != AUTO:
        _check(source)
    code = currency.strip().upper()
    if code and not (code.isascii() and code.isalpha() and len(code) == 3):
        raise Permanent(f"--currency {currency[:20]}: write the three letters of ISO 4217, such as USD")
    known: Sequence[Price] = ()
    if prices is not None:
        from tidegate.bills.price_file import read_prices

        known = read_prices(prices)
    return Wishes(source=source, account=account.strip(), currency=code, shard=shard.strip(), prices=Prices(known))


def _check(source: str) -> None:
    from tidegate.bills.formats import NAMES

    if source not in NAMES:
        raise Permanent(f"--source {source}: there is no such format; known: {', '.join(NAMES)}")


def _read(files: Sequence[Path], wishes: Wishes) -> BillShape:
    """What the files add up to."""
    from tidegate.bills.parts import gather
    from tidegate.bills.reading import Reading
    from tidegate.link.bill_messages import bill_shape

    bundle = gather(files)
    with progress_bar("reading", sum(part.path.stat().st_size for part in bundle.parts)) as progress:
        reading = Reading(bundle, wishes, progress)
        for _ in reading.items():
            pass  # counted on the way
    return bill_shape(reading.result(), dry_run=True)


Version = Annotated[int, typer.Argument(min=1, metavar="ID", help="A version's id, as `tidegate bill list` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept.")]


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Earlier versions too.")] = False,
    as_json: Json = False,
    controller: ControllerOption = DEFAULT_URL,
) -> None:
    """Show every snapshot: source, account, billing period, totals, whether it is closed and by what."""
    versions = _client(controller, None).versions(every=every)
    _print(versions, as_json, lambda: version_lines(versions))


@app.command()
def show(version: Version, as_json: Json = False, controller: ControllerOption = DEFAULT_URL) -> None:
    """Show one version: its sums by category and service, its invoices, its files."""
    found = _client(controller, None).version(version)
    _print([found], as_json, lambda: details(found))


@app.command()
def diff(
    version: Version,
    against: Annotated[int | None, typer.Argument(min=1, help="Another version; the one before unless given.")] = None,
    as_json: Json = False,
    controller: ControllerOption = DEFAULT_URL,
) -> None:
    """Show what changed between two versions of a snapshot, by category and by resource."""
    found = _client(controller, None).difference(version, against)
    _print([found], as_json, lambda: difference_lines(found))


@app.command()
def quarantine(version: Version, as_json: Json = False, controller: ControllerOption = DEFAULT_URL) -> None:
    """Show the rows of a version that could not be taken, with why and how much money they speak of."""
    rows = _client(controller, None).quarantine(version)
    _print(rows, as_json, lambda: quarantine_lines(rows))


@app.command()
def close(
    version: Version, reason: Reason, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None
) -> None:
    """Close the snapshot of a version by hand: it is final from now on."""
    found = _client(controller, token_file).change(version, "close", reason)
    typer.echo(f"closed: {snapshot_name(found)}")


@app.command()
def reopen(
    version: Version, reason: Reason, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None
) -> None:
    """Open a closed snapshot again: the next import may replace it."""
    found = _client(controller, token_file).change(version, "reopen", reason)
    typer.echo(f"open again: {snapshot_name(found)}")


@app.command()
def withdraw(
    version: Version, reason: Reason, controller: ControllerOption = DEFAULT_URL, token_file: TokenOption = None
) -> None:
    """Let an open snapshot count no longer: it was imported by mistake. What it was stays on record."""
    found = _client(controller, token_file).change(version, "withdraw", reason)
    typer.echo(f"withdrawn: {snapshot_name(found)}")


def _client(controller: str, token_file: Path | None) -> BillClient:
    from tidegate.link.bill_client import BillClient

    return BillClient(client(controller, token_file))


def _print(found: Sequence[BaseModel], as_json: bool, lines: Callable[[], Iterable[str]]) -> None:
    if as_json:
        shown = [each.model_dump(mode="json") for each in found]
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    for line in lines():
        typer.echo(line)
