"""`tidegate price`: what a unit costs by contract or list: for bills without amounts, for estimates before a bill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.bill_view import table
from tidegate.cli.remote import DEFAULT_URL, ControllerOption, TokenOption, client

app = typer.Typer(help="Prices by contract or list.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Prices by contract or list."""


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV with the columns sku, price, currency (docs/billing.md).")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the file.")] = False,
    controller: ControllerOption = DEFAULT_URL,
    token_file: TokenOption = None,
) -> None:
    """Add prices, each in the place of the one of the same provider, SKU, region, unit and start."""
    from tidegate.bills.price_file import read_prices
    from tidegate.link.bill_client import BillClient

    prices = read_prices(file)
    if not dry_run:
        BillClient(client(controller, token_file)).put_prices(prices)
    typer.echo(f"{len(prices)} prices {'can be read' if dry_run else 'imported'}")


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    controller: ControllerOption = DEFAULT_URL,
) -> None:
    """Show every price."""
    from tidegate.link.bill_client import BillClient

    prices = BillClient(client(controller, None)).prices()
    if as_json:
        typer.echo(json.dumps([each.model_dump(mode="json") for each in prices], indent=2, ensure_ascii=False))
        return
    rows = [
        (
            each.provider or "any",
            each.sku,
            each.region or "any",
            f"{each.currency} {each.amount:f} per {each.unit}",
            f"{each.since:%Y-%m-%d}" if each.since else "",
            f"{each.until:%Y-%m-%d}" if each.until else "",
        )
        for each in prices
    ]
    for line in table(("provider", "sku", "region", "price", "since", "until"), rows):
        typer.echo(line)
