"""Which column is which: headers by name, whatever their case, punctuation, order or language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

_PARENTHESISED = re.compile(r"(?P<outer>.*?)\s*[(（](?P<inner>[^()（）]+)[)）]\s*")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]+")


def plain(header: str) -> str:
    """A header's letters, digits and nothing else, lower case: `lineItem/UnblendedCost` is `lineitemunblendedcost`."""
    folded = unicodedata.normalize("NFKC", header).lower()
    return "".join(mark for mark in folded if mark.isalnum())


def names_of(header: str) -> tuple[str, ...]:
    """The names by which a column can be asked for: as it stands, then the English one in parentheses, then without."""
    names = [plain(header)]
    if found := _PARENTHESISED.fullmatch(header.strip()):
        if _IDENTIFIER.fullmatch(found["inner"]):
            names.append(plain(found["inner"]))
        names.append(plain(found["outer"]))
    return tuple(name for name in dict.fromkeys(names) if name)


class Columns:
    """The columns of one file by name. A name that stands twice means its first column, and `doubled` says so.

    `growing`: the rows are objects whose keys may come later than the header was made. What is asked for in vain has a
    place all the same then (`late`, beyond the empty cell), where `place_late` puts it when it does come.
    """

    def __init__(self, header: Sequence[str], *, growing: bool = False) -> None:
        self.header = tuple(header)
        self.late: dict[tuple[str, ...], int] = {}
        self._growing = growing
        self.doubled: frozenset[str] = frozenset(self._index_all())

    def _index_all(self) -> Iterable[str]:
        self._index: dict[str, int] = {}
        weaker: list[tuple[str, int]] = []
        doubled: set[str] = set()
        for place, header in enumerate(self.header):
            first, *others = names_of(header) or ("",)
            if first and first in self._index:
                doubled.add(first)
            elif first:
                self._index[first] = place
            weaker += [(name, place) for name in others]
        for name, place in weaker:
            self._index.setdefault(name, place)
        return doubled

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __len__(self) -> int:
        return len(self.header)

    @property
    def names(self) -> frozenset[str]:
        """Every name."""
        return frozenset(self._index)

    def find(self, *names: str) -> int:
        """The place of the first of these that the file has; one past the last column (an empty cell) when none."""
        found = next((self._index[name] for name in names if name in self._index), None)
        if found is None and self._growing and names:
            found = self.late.setdefault(names, len(self.header) + 1 + len(self.late))
        return len(self.header) if found is None else found

    def place_late(self, cells: list[str], extra: Iterable[str]) -> bool:
        """Put `key=value` cells of keys that the header lacks where readers look; whether any is of no interest."""
        cells += [""] * (len(self.header) + 1 + len(self.late) - len(cells))
        named = {plain(key): value for key, _, value in (text.partition("=") for text in extra)}
        used: set[str] = set()
        for names, place in self.late.items() if named else ():
            if (name := next((name for name in names if named.get(name)), None)) is not None:
                cells[place] = named[name]
                used.add(name)
            used.update(names)
        return not named.keys() <= used

    def has(self, *names: str) -> bool:
        """Whether the file has any of them."""
        return any(name in self._index for name in names)

    def prefixed(self, prefixes: Mapping[str, str]) -> list[tuple[str, int]]:
        """The columns whose header starts with one of the prefixes: (what replaces it and the rest, place)."""
        found: list[tuple[str, int]] = []
        for place, header in enumerate(self.header):
            for prefix, replacement in prefixes.items():
                if header.startswith(prefix) and len(header) > len(prefix):
                    found.append((replacement + header[len(prefix) :], place))
                    break
        return found
