"""One pass over the files of an import: every row becomes a charge or is quarantined, and counts where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from decimal import localcontext
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import IO

from tidegate.bills.cells import EXACT, NumberError, decimals_of
from tidegate.bills.columns import Columns
from tidegate.bills.expected import tie_out
from tidegate.bills.format import Format, Item, Manner, Reader, RowError
from tidegate.bills.formats import choose
from tidegate.bills.moments import MomentError, writes_day_first
from tidegate.bills.overlap import Sketch, overlaps
from tidegate.bills.parts import Bundle, Part, opened
from tidegate.bills.records import Records, records_of
from tidegate.bills.tally import Aside, Tally
from tidegate.bills.wishes import Wishes
from tidegate.model.bill import BillRead, Declared, FileRead, ImportOrder, added
from tidegate.model.charge import NO_CURRENCY, Charge, Quarantined, SnapshotKey, account_name
from tidegate.model.price import Prices
from tidegate.runtime.errors import Permanent

_SAMPLE = 1000
_SHOWN = 200
_LEFT_OUT_SHOWN = 5
_HEADER_WITHIN = 20
_LATE = "keys that only later objects have and that no figure needs"
_EITHER = "an amount such as {cell} may be a whole number in groups or have three decimals; taken as the latter"
_JOINED = "the header stands in it once more, as in files that were joined; it is no row"
_TOTAL_WORDS = frozenset({"total", "grand total", "sum", "合计", "总计", "小计", "汇总"})


@dataclass(slots=True)
class Reading:
    """Reads a bundle once; when the iteration is over, `tallies` and the rest are complete."""

    bundle: Bundle
    wishes: Wishes
    progress: Callable[[int], None] | None = None
    tallies: dict[SnapshotKey, Tally] = field(default_factory=dict)
    files: list[FileRead] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    aside: Aside = field(default_factory=Aside)
    unplaced: int = 0
    """Quarantined rows that speak of none of the snapshots; the largest one has them."""
    shown: list[Quarantined] = field(default_factory=list)
    _places: dict[tuple[str, str, datetime, datetime], Tally] = field(default_factory=dict)
    """The tallies once more, by what a row tells: a million keys need not be made."""
    _sketches: dict[SnapshotKey, list[Sketch]] = field(default_factory=dict)
    overlapping: list[str] = field(default_factory=list)
    """Files of this import that hold the same rows, in words."""
    _asides: dict[tuple[str, str, datetime | None], Aside] = field(default_factory=dict)

    def items(self) -> Iterator[tuple[SnapshotKey, Charge] | Quarantined]:
        """Every row; raises Permanent where a file as a whole cannot be read."""
        for part in self.bundle.parts:
            with opened(part, self.progress) as source:
                yield from self._part(part, source)
        self._settle()
        self._compare()
        if self.bundle.left_out:
            shown = ", ".join(self.bundle.left_out[:_LEFT_OUT_SHOWN])
            more = ", ..." if len(self.bundle.left_out) > _LEFT_OUT_SHOWN else ""
            self.notes.append(f"{len(self.bundle.left_out)} files are left out: {shown}{more}")

    def _part(self, part: Part, source: IO[bytes]) -> Iterator[tuple[SnapshotKey, Charge] | Quarantined]:
        with closing(records_of(source, part.name)) as records:
            yield from self._rows(part, records)

    def _rows(self, part: Part, records: Records) -> Iterator[tuple[SnapshotKey, Charge] | Quarantined]:
        opening = _open(records, part, self.wishes)
        number = quarantined = adding = 0
        for number, cells in enumerate(opening.rows, 1):
            taken = opening.take(cells, number)
            if isinstance(taken, Quarantined):
                quarantined += 1
                self._set_aside(opening.format.name, taken)
                yield taken
                continue
            adding += not taken
            digest = _digest(cells)
            for item in taken:
                if isinstance(item, Declared):
                    self.declared.append(item)
                else:
                    yield self._count(opening.format, item, digest), item
        records.finish()
        accepted = number - quarantined - adding
        read = FileRead(
            part.name, opening.format.name, number, accepted, quarantined, adding, opening.short, part.rows
        )  # fmt: skip
        self.files.append(read)
        self._say(part, read, {**records.notes, **opening.reader.notes})

    def _count(self, format_: Format, charge: Charge, digest: int) -> SnapshotKey:
        place = (format_.name, charge.account, charge.billing_start, charge.billing_end)
        tally = self._places.get(place)
        if tally is None:
            key = SnapshotKey(*place, self.wishes.shard)
            tally = self._places[place] = self.tallies[key] = Tally(key)
        tally.add(charge, digest)
        if self._many:
            sketches = self._sketches.setdefault(tally.key, [])
            if not sketches or sketches[-1].part != len(self.files):
                sketches.append(Sketch(charge.file, len(self.files)))
            sketches[-1].add(digest)
        return tally.key

    @property
    def _many(self) -> bool:
        return len(self.bundle.parts) > 1

    def _set_aside(self, source: str, row: Quarantined) -> None:
        self.aside.add(row)
        if len(self.shown) < _SHOWN:
            self.shown.append(row)
        self._asides.setdefault((source, row.account, row.billing_start), Aside()).add(row)

    def _settle(self) -> None:
        """Count quarantined rows in the snapshots that they speak of, now that these are known."""
        largest = max(self.tallies.values(), key=lambda tally: (tally.rows, tally.key), default=None)
        for (source, account, start), aside in self._asides.items():
            mine = (
                tally
                for key, tally in self.tallies.items()
                if key.source == source and account in ("", key.account) and start == key.start
            )
            if (found := next(mine, None)) is None:
                self.unplaced += aside.rows
            if (taker := found or largest) is not None:
                taker.aside.merge(aside)

    def _compare(self) -> None:
        """Say which files hold the same rows."""
        found = {
            f"{one} and {other} share {share:.0%} of their rows: overlapping exports count the same money twice"
            for sketches in self._sketches.values()
            for one, other, share in overlaps(sketches)
        }
        self.overlapping += sorted(found)
        self.notes += self.overlapping

    def _say(self, part: Part, read: FileRead, notes: dict[str, int]) -> None:
        self.notes += [f"{part.name}: {text} ({count} rows)" for text, count in notes.items()]
        if read.truncated:
            self.notes.append(f"{part.name}: the last row is incomplete: the file may be cut short")
        if read.totals_rows:
            self.notes.append(f"{part.name}: {read.totals_rows} rows only add up others and are left out of all sums")
        if part.rows is not None and part.rows != read.rows:
            self.notes.append(f"{part.name}: the manifest promises {part.rows} rows, {read.rows} are here")

    def result(self) -> BillRead:
        """Everything that was found; complete when the items have been iterated to the end."""
        snapshots = tuple(self.tallies[key].sums() for key in sorted(self.tallies))
        mine = account_name(self.wishes.account)
        others = sorted({key.account for key in self.tallies if account_name(key.account) != mine})
        if mine and others:
            self.notes.append(
                f"of the account {', '.join(others[:3])}, not of {self.wishes.account}: another one's file"
            )
        with localcontext(EXACT):
            totals = added([each for snapshot in snapshots for each in snapshot.totals])
        expected = self.wishes.expected
        return BillRead(
            files=tuple(self.files),
            snapshots=snapshots,
            totals=totals,
            aside=self.aside.sum(),
            unplaced=self.unplaced,
            quarantine=tuple(self.shown),
            declared=tuple(self.declared),
            warnings=tuple(self.notes),
            overlapping=tuple(self.overlapping),
            tie=tie_out(totals, self.aside.amounts, expected) if expected else None,
        )


def reading_of(order: ImportOrder, prices: Prices) -> Reading:
    """The pass over the files of an order, ready to be iterated."""
    parts = tuple(Part(part.name, Path(part.path), part.entry, part.hints, part.rows) for part in order.parts)
    bundle = Bundle(parts, tuple(dict.fromkeys(part.path for part in parts)), order.left_out)
    wishes = Wishes(order.source, order.account, order.currency, order.shard, prices, order.expected)
    return Reading(bundle, wishes)


@dataclass(slots=True)
class _Opening:
    """One part, its format known."""

    format: Format
    columns: Columns
    reader: Reader
    manner: Manner
    rows: Iterator[list[str]]
    width: int
    growing: bool
    short: bool = False
    """Whether the last row that was taken lacks its end."""

    def take(self, cells: list[str], number: int) -> Sequence[Item] | Quarantined:
        """The row's items; none for a row that only adds up others."""
        width = self.width
        self.short = len(cells) < width or (self.growing and self._broken(cells))
        if self.growing and self.short:
            return self._refuse(cells, number, "the line is no JSON object")
        if self.growing:
            extra = cells[width:]
            del cells[width:]
            if self.columns.place_late(cells, extra):
                self.reader.notes[_LATE] = self.reader.notes.get(_LATE, 0) + 1
            return self._read(cells, number)
        if len(cells) != width:
            if len(cells) < width or any(cells[width:]):
                if _adds_up(cells):
                    return ()
                return self._refuse(cells, number, f"{len(cells)} fields where the header has {width}")
            del cells[width:]
        cells.append("")
        return self._read(cells, number)

    def _broken(self, cells: Sequence[str]) -> bool:
        """Whether it is a line that should be a JSON object and is none: it stands under no key."""
        header = self.columns.header
        return any(extra.startswith("=") for extra in cells[self.width :]) or (
            "" in header and bool(cells[header.index("")])
        )

    def _read(self, cells: list[str], number: int) -> Sequence[Item] | Quarantined:
        try:
            found = self.reader.read(cells, number)
        except (RowError, NumberError, MomentError) as error:
            return () if _adds_up(cells) else self._refuse(cells, number, str(error))
        return found if isinstance(found, tuple) else (found,)

    def _refuse(self, cells: list[str], number: int, reason: str) -> Quarantined:
        padded = [*cells, *[""] * (self.width + 1 - len(cells))]
        hint = self.reader.hint(padded)
        return Quarantined(
            self.manner.file,
            number,
            reason,
            amount=hint.amount,
            currency=hint.currency or NO_CURRENCY,
            text=",".join(cells)[:2000],
            account=hint.account,
            billing_start=hint.start,
        )


def _adds_up(cells: Sequence[str]) -> bool:
    """Whether a row that is no charge is a line of totals, as consoles put at the end."""
    first = next((cell for cell in cells if cell.strip()), "").strip().strip(":：").casefold()
    return first in _TOTAL_WORDS


def _open(records: Records, part: Part, wishes: Wishes) -> _Opening:
    first = list(islice(records.rows, _HEADER_WITHIN + _SAMPLE))
    format_, columns, at = choose(first, wishes.source, part, growing=records.growing)
    sample = first[at + 1 :]
    twice = columns.doubled & set(format_.money)
    if twice:
        raise Permanent(
            f"{part.name}: the column {min(twice)} stands twice: which one counts cannot be told; remove one"
        )
    money = chain.from_iterable(_cells_of(sample, columns, format_.money))
    decimals = decimals_of(money, chain.from_iterable(sample), records.delimiter)
    manner = Manner(
        file=part.name,
        account=wishes.account,
        currency=wishes.currency,
        comma=decimals.comma,
        day_first=writes_day_first(_cells_of(sample, columns, format_.times)),
        prices=wishes.prices,
    )
    reader = format_.reader(columns, manner)
    reader.look(sample)
    if decimals.doubt:
        reader.notes[_EITHER.format(cell=decimals.doubt)] = 1
    if columns.doubled:
        reader.notes[f"columns that stand twice ({', '.join(sorted(columns.doubled)[:5])}): the first counts"] = 1
    rows = _rows_of(chain(sample, records.rows), list(columns.header), reader.notes)
    return _Opening(format_, columns, reader, manner, rows, len(columns), records.growing)


def _cells_of(sample: Sequence[list[str]], columns: Columns, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Of each row the cells of the columns that are there."""
    places = [columns.find(name) for name in names if columns.has(name)]
    return (tuple(row[place] for place in places if place < len(row)) for row in sample)


def _rows_of(rows: Iterator[list[str]], header: list[str], notes: dict[str, int]) -> Iterator[list[str]]:
    """Blank lines are no rows, be they separators alone; nor is the header of a file that was joined to another."""
    first = header[0]
    for cells in rows:
        if cells[0] == first and cells == header:
            notes[_JOINED] = notes.get(_JOINED, 0) + 1
        elif cells[0].strip() or any(map(str.strip, cells)):
            yield cells


def _digest(cells: Sequence[str]) -> int:
    return int.from_bytes(blake2b("\x1f".join(cells).encode("utf-8", "replace"), digest_size=16).digest(), "little")
