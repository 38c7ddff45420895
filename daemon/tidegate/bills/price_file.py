"""Price files: what a unit costs, by contract or list, as CSV or JSON (docs/billing.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tidegate.bills.cells import NumberError, decimals_of
from tidegate.bills.columns import Columns
from tidegate.bills.format import Cells, Manner, RowError
from tidegate.bills.moments import MomentError
from tidegate.bills.parts import Part, gather, opened
from tidegate.bills.records import records_of
from tidegate.bills.words import provider_of
from tidegate.model.charge import NO_CURRENCY
from tidegate.model.price import Price
from tidegate.runtime.errors import Permanent

_SKU, _PRICE = ("sku", "instancetype", "gpu", "gputype"), ("price", "priceperunit", "amount", "priceperhour")


class _PriceReader(Cells):
    def __init__(self, columns: Columns, manner: Manner) -> None:
        super().__init__(columns, manner)
        find = columns.find
        self._sku, self._price, self._provider = find(*_SKU), find(*_PRICE), find("provider")
        self._currency, self._unit, self._region = find("currency"), find("unit"), find("region")
        self._gpus, self._since, self._until = find("gpus", "gpucount"), find("since", "from"), find("until", "to")

    def read(self, cells: list[str]) -> Price:
        sku, currency = self.text(cells, self._sku), self.currency(cells, self._currency)
        amount, gpus = self.amount(cells, self._price), self.number(cells, self._gpus)
        if not sku:
            raise RowError("sku is empty")
        if currency == NO_CURRENCY:
            raise RowError("currency is empty")
        if amount < 0:
            raise RowError("the price is negative")
        if gpus is not None and (gpus != int(gpus) or gpus < 1):
            raise RowError(f"gpus {gpus} is not a whole number from 1")
        provider = self.text(cells, self._provider)
        return Price(
            provider=provider_of(provider) if provider else "",
            sku=sku,
            currency=currency,
            amount=amount,
            unit=self.text(cells, self._unit).casefold() or "hour",
            region=self.text(cells, self._region),
            gpus=None if gpus is None else int(gpus),
            since=self.time(cells, self._since),
            until=self.time(cells, self._until),
        )


def read_prices(path: Path) -> Sequence[Price]:
    """Every price of a file; raises Permanent with the row and the remedy, for a price left out would be a guess."""
    return [price for part in gather([path]).parts for price in _prices_of(part)]


def _prices_of(part: Part) -> Iterator[Price]:
    with opened(part) as source, closing(records_of(source, part.name)) as records:
        columns = Columns(next(records.rows, []))
        rows = list(records.rows)
        if not (columns.has(*_SKU) and columns.has(*_PRICE) and columns.has("currency")):
            raise Permanent(f"{part.name}: a price file has the columns sku, price and currency (docs/billing.md)")
        place = columns.find(*_PRICE)
        decimals = decimals_of((row[place] for row in rows if place < len(row)), (), records.delimiter)
        if decimals.doubt:
            raise Permanent(
                f"{part.name}: {decimals.doubt} may be whole or not; write `.` for decimals and `,` between columns"
            )
        reader = _PriceReader(columns, Manner(comma=decimals.comma))
        for number, cells in enumerate(rows, 1):
            if not any(map(str.strip, cells)):
                continue
            try:
                yield reader.read([*cells, *[""] * (len(columns) + 1 - len(cells))])
            except (RowError, NumberError, MomentError) as error:
                raise Permanent(f"{part.name}, row {number}: {error}") from error
