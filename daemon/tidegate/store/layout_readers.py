"""What reads the vectors of each layout, remembered: a layout never changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate.model.reading import HostName
from tidegate.model.unflatten import Reader
from tidegate.store.admission import Keys
from tidegate.store.database import Database
from tidegate.store.layouts import Layouts

_MOST = 10_000
"""That are kept, some 50 kB each: a layout or two of every host."""


class LayoutReaders:
    """Safe for many threads: whoever comes too early learns one more time."""

    def __init__(self, database: Database, layouts: Layouts) -> None:
        self._database, self._layouts = database, layouts
        self._known: dict[tuple[HostName, str], Reader] = {}

    def of(
        self, wanted: Collection[tuple[HostName, str]], *, remembered: bool
    ) -> Mapping[tuple[HostName, str], Reader]:
        """By host and layout id; one that is not stored is left out, and with `remembered` nothing is asked for."""
        found = {pair: self._known.get(pair) for pair in wanted}
        unknown = [pair for pair, reader in found.items() if reader is None]
        if unknown and not remembered:
            found |= self._learn(unknown)
        return {pair: reader for pair, reader in found.items() if reader is not None}

    def _learn(self, pairs: Collection[tuple[HostName, str]]) -> dict[tuple[HostName, str], Reader]:
        keys: Mapping[tuple[str, str], Keys] = self._layouts.known(pairs)
        if len(keys) < len(pairs):
            with self._database.begin() as connection:
                keys = self._layouts.load(connection, pairs)
        learnt = {pair: Reader(keys[pair]) for pair in pairs if pair in keys}
        if len(self._known) > _MOST:
            self._known = {}
        self._known |= learnt
        return learnt
