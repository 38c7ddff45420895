"""GPU time of a host in an hour, classed: who worked, who was resident and idle, what was empty, what nobody saw.

Weights are GPU milliseconds. A host's cells of an hour are what its bill of that hour is split by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tidegate.model.activity import (
    EVERY_SLOT,
    HOUR_SECONDS,
    SLOT_SECONDS,
    SLOTS,
    Activity,
    HourKey,
    hour_of,
)
from tidegate.model.allocation import LineKind

_SLOT = SLOT_SECONDS * 1000
_HOUR = HOUR_SECONDS * 1000


class Cell(NamedTuple):
    """A class of GPU time, and whose."""

    kind: LineKind
    pool: str


Cells = tuple[tuple[Cell, int], ...]
"""Each class with its GPU milliseconds, none of them zero, in a stable order."""


@dataclass(frozen=True, slots=True)
class HourCells:
    """A host's hour."""

    cells: Cells
    over: int = 0
    """GPU milliseconds held beyond what the host has."""


@dataclass(slots=True)
class CellBook:
    """The cells of any host and hour, worked out when they are asked for."""

    activity: Activity
    _held: dict[HourKey, list[tuple[int, int, int, str]]] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _hours: dict[HourKey, HourCells] = field(default_factory=dict)
    _first: int = 0
    _last: int = 0

    def __post_init__(self) -> None:
        self._first, self._last = _ms(self.activity.since), _ms(self.activity.until)
        for holding in self.activity.holdings:
            start, end = max(_ms(holding.start), self._first), min(_ms(holding.end), self._last)
            for hour in range(start // _HOUR, -(-end // _HOUR)) if end > start else ():
                begin = hour * _HOUR
                row = (max(start - begin, 0), min(end - begin, _HOUR), holding.gpus, str(holding.pool))
                self._held.setdefault((str(holding.host), hour), []).append(row)
        for (host, _), rows in self._held.items():
            if host not in self.activity.gpus:
                self._most[host] = max(self._most.get(host, 0), _peak(rows))

    @property
    def hosts(self) -> frozenset[str]:
        """Every host that is known."""
        return frozenset(self.activity.gpus) | self._most.keys() | {host for host, _ in self.activity.seen}

    def held(self) -> Mapping[HourKey, list[tuple[int, int, int, str]]]:
        """(start, end, GPUs, pool) of everything held, by host and hour, in milliseconds of the hour."""
        return self._held

    def gpus(self, host: str) -> int:
        """What a host has: as configured, else the most that was ever held at once."""
        return self.activity.gpus.get(host) or self._most.get(host, 0)

    def hour(self, host: str, hour: int) -> HourCells:
        """The classes of one hour; empty when the host has no GPU that is known."""
        key = (host, hour)
        if (found := self._hours.get(key)) is None:
            found = self._hours[key] = self._work(key)
        return found

    def _work(self, key: HourKey) -> HourCells:
        host, hour = key
        first = max(self._first - hour * _HOUR, 0)
        last = min(self._last - hour * _HOUR, _HOUR)
        if first >= last:
            return HourCells(())
        seen = self.activity.seen.get(key, 0)
        found: dict[Cell, int] = defaultdict(int)
        for start, end, gpus, pool in self._held.get(key, ()):
            self._class(found, (host, pool, hour), seen, (start, end, gpus))
        held = sum(found.values())
        capacity = self.gpus(host) * (last - first)
        if held < capacity:
            self._rest(found, key, (first, last), seen, capacity - held)
        return HourCells(tuple(sorted(each for each in found.items() if each[1])), max(held - capacity, 0))

    def _class(self, found: dict[Cell, int], key: tuple[str, str, int], seen: int, held: tuple[int, int, int]) -> None:
        """Class what one replica held."""
        start, end, gpus = held
        shares, worked, pool = self.activity.busy.get(key), self.activity.worked.get(key, 0), key[1]
        if shares is None and start == 0 and end == _HOUR and seen == EVERY_SLOT:
            busy = worked.bit_count() * _SLOT * gpus
            found[Cell(LineKind.BUSY, pool)] += busy
            found[Cell(LineKind.RESIDENT, pool)] += _HOUR * gpus - busy
            return
        for slot in range(start // _SLOT, -(-end // _SLOT)):
            time = (min(end, (slot + 1) * _SLOT) - max(start, slot * _SLOT)) * gpus
            if not seen >> slot & 1:
                found[Cell(LineKind.UNOBSERVED, pool)] += time
                continue
            share = shares[slot] if shares is not None else None
            if share is None:
                share = float(worked >> slot & 1)
            busy = round(min(max(share, 0.0), 1.0) * time)
            found[Cell(LineKind.BUSY, pool)] += busy
            found[Cell(LineKind.RESIDENT, pool)] += time - busy

    def _rest(self, found: dict[Cell, int], key: HourKey, span: tuple[int, int], seen: int, rest: int) -> None:
        """What nobody held: empty while the host was seen, else nobody knows."""
        first, last = span
        if seen == EVERY_SLOT:
            found[Cell(LineKind.EMPTY, "")] += rest
            return
        unseen = sum(
            min(last, (slot + 1) * _SLOT) - max(first, slot * _SLOT)
            for slot in range(SLOTS)
            if not seen >> slot & 1 and min(last, (slot + 1) * _SLOT) > max(first, slot * _SLOT)
        )
        dark = sum(time for cell, time in found.items() if cell.kind is LineKind.UNOBSERVED)
        unknown = min(max(self.gpus(key[0]) * unseen - dark, 0), rest)
        found[Cell(LineKind.UNOBSERVED, "")] += unknown
        found[Cell(LineKind.EMPTY, "")] += rest - unknown


def _ms(at: datetime) -> int:
    whole = hour_of(at) * _HOUR
    return whole + (at.minute * 60 + at.second) * 1000 + at.microsecond // 1000


def _peak(rows: list[tuple[int, int, int, str]]) -> int:
    """The most GPUs held at one moment of an hour."""
    turns = sorted([(start, gpus) for start, _, gpus, _ in rows] + [(end, -gpus) for _, end, gpus, _ in rows])
    most = now = 0
    for _, change in turns:
        now += change
        most = max(most, now)
    return most
