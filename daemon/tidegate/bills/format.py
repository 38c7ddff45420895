"""What a format is: headers that it knows and a reader of rows. To add one: a module here, a line in `formats.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Protocol, TypeVar

from tidegate.bills.cells import NOTHING, NumberError, decimal_of, tags_of, text_of
from tidegate.bills.columns import Columns
from tidegate.bills.moments import MomentError, moment_of
from tidegate.model.bill import Declared
from tidegate.model.charge import NO_ACCOUNT, NO_CURRENCY, Charge, Ledger
from tidegate.model.price import Prices

_TAGS_KEPT = 4096
_LONGEST_ACCOUNT = 512
_MOMENTS_KEPT = 65_536
T = TypeVar("T")


class RowError(ValueError):
    """A row that cannot be taken; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one file writes, decided once for it, and what the operator said of it."""

    file: str = ""
    account: str = ""
    currency: str = ""
    comma: bool = False
    day_first: bool = False
    prices: Prices = field(default_factory=Prices)


Item = Charge | Declared


class Reader(Protocol):
    """Reads the rows of one file."""

    notes: dict[str, int]
    """What was noticed, and in how many rows."""

    def look(self, sample: Iterable[Sequence[str]]) -> None:
        """See the first rows before any is read, for what is decided once for a file."""
        ...

    def read(self, cells: list[str], row: int) -> Item | tuple[Item, ...]:
        """What a row says; raises RowError, NumberError or MomentError. `cells` has one empty cell more."""
        ...

    def hint(self, cells: list[str]) -> Hint:
        """What can be told of a row that could not be taken."""
        ...


@dataclass(frozen=True, slots=True)
class Hint:
    """What a refused row speaks of, as far as it can be read."""

    amount: Decimal | None = None
    currency: str = NO_CURRENCY
    account: str = ""
    start: datetime | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One layout of bill files."""

    name: str
    """The source of its snapshots."""
    title: str
    needs: tuple[tuple[str, ...], ...]
    """Of each group one column must be there (names as `columns.plain` makes them)."""
    reader: Callable[[Columns, Manner], Reader]
    money: tuple[str, ...]
    """The columns that hold amounts: to be there once only."""
    times: tuple[str, ...] = ()
    """The columns that hold times: where day and month are told apart."""
    lacks: tuple[str, ...] = ()
    """None of these may be there."""
    ledgers: frozenset[Ledger] = frozenset(Ledger)
    """The ledgers that its snapshots fill."""

    def fits(self, columns: Columns) -> bool:
        """Whether a file with these columns is one of this format."""
        return all(columns.has(*group) for group in self.needs) and not columns.has(*self.lacks)


class Cells:
    """Reads cells of the columns that a format names; what most readers are made of."""

    zone: tzinfo = UTC

    def __init__(self, columns: Columns, manner: Manner) -> None:
        self.columns, self.manner = columns, manner
        self.notes: dict[str, int] = {}
        self._moments: dict[str, datetime | None] = {}
        self._codes: dict[str, str] = {}
        self._tags: dict[str, Mapping[str, str]] = {}

    def look(self, sample: Iterable[Sequence[str]]) -> None:
        """See the first rows; most formats need not."""

    def note(self, text: str) -> None:
        """Count something that the reader of the bill should know of many rows together."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def number(self, cells: Sequence[str], place: int) -> Decimal | None:
        """An exact number, None where nothing stands."""
        cell = cells[place]
        if not cell:
            return None
        try:
            return decimal_of(cell, comma=self.manner.comma)
        except NumberError as error:
            raise RowError(f"{self._named(place)}: {error}") from None

    def measure(self, cells: Sequence[str], place: int) -> Decimal | None:
        """A number that is no money of the bill: one that cannot be read is left out and noted, the row stays."""
        try:
            return self.number(cells, place)
        except RowError:
            self.note(f"{self._named(place)} cannot be read and is left out")
            return None

    def amount(self, cells: Sequence[str], place: int) -> Decimal:
        """An amount that must be there."""
        found = self.number(cells, place)
        if found is None:
            raise RowError(f"{self._named(place)} is empty")
        return found

    def text(self, cells: Sequence[str], *places: int) -> str:
        """The first of these that says anything."""
        for place in places:
            if cells[place] and (found := text_of(cells[place])):
                return found
        return ""

    def time(self, cells: Sequence[str], place: int) -> datetime | None:
        """A moment, None where nothing stands."""
        return self.moment(cells[place], place)

    def moment(self, text: str, place: int) -> datetime | None:
        """The same of a part of a column's cell."""
        try:
            return self._moments[text]
        except KeyError:
            return self._new_moment(text, place)

    def _new_moment(self, cell: str, place: int) -> datetime | None:
        bare = cell.strip()
        try:
            found = moment_of(bare, self.zone, day_first=self.manner.day_first) if NOTHING.get(bare, bare) else None
        except MomentError as error:
            raise RowError(f"{self._named(place)}: {error}") from None
        if len(self._moments) >= _MOMENTS_KEPT:
            self._moments.clear()
        self._moments[cell] = found
        return found

    def _named(self, place: int) -> str:
        return self.columns.header[place] if place < len(self.columns) else "a column"

    def tags(self, cells: Sequence[str], place: int) -> Mapping[str, str]:
        """Tags; rows that write the same text share one mapping."""
        cell = cells[place]
        found = self._tags.get(cell)
        if found is None:
            if len(self._tags) >= _TAGS_KEPT:
                self._tags.clear()
            found = self._tags[cell] = tags_of(cell)
        return found

    def currency(self, cells: Sequence[str], *places: int) -> str:
        """The currency, which the operator may name for a file that does not."""
        known = self._codes.get(cells[places[0]])
        if known is not None:
            return known
        code = self.text(cells, *places).upper()
        code = _CURRENCIES.get(code, code)
        if not code:
            return self.manner.currency or NO_CURRENCY
        if not (code.isascii() and code.isalpha() and len(code) == 3):
            raise RowError(f"{code[:20]!r} is not a currency code")
        if cells[places[0]] and len(self._codes) < _TAGS_KEPT:
            self._codes[cells[places[0]]] = code
        return code

    def account(self, cells: Sequence[str], *places: int) -> str:
        """Who pays; the operator's word where the file has none."""
        found = self.text(cells, *places) or self.manner.account or NO_ACCOUNT
        if len(found) > _LONGEST_ACCOUNT:
            raise RowError(f"an account of {len(found)} characters: {found[:40]!r}...")
        return found

    def told(self, cells: Sequence[str], amounts: Iterable[int], currency: int, account: int, start: int) -> Hint:
        """A hint from the columns that say it, whatever can be read of them."""
        return Hint(
            amount=next((found for place in amounts if (found := self._try(self.number, cells, place))), None),
            currency=self._try(self.currency, cells, currency) or NO_CURRENCY,
            account=self._try(self.account, cells, account) or "",
            start=self._try(self.time, cells, start),
        )

    @staticmethod
    def _try(read: Callable[[Sequence[str], int], T], cells: Sequence[str], place: int) -> T | None:
        try:
            return read(cells, place)
        except (RowError, NumberError, MomentError, IndexError):
            return None


_CURRENCIES = {"人民币": "CNY", "RMB": "CNY", "元": "CNY", "CN¥": "CNY", "美元": "USD", "US$": "USD"}
"""Words that Chinese consoles write for a currency."""
