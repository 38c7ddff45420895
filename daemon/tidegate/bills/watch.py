"""A folder or an address where bills arrive: what is new there, each delivery as the files of one import."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.bills.manifests import bound, homes, is_manifest, newest
from tidegate.runtime.errors import Permanent
from tidegate.runtime.files import replace_file

_AT_REST = timedelta(seconds=60)
"""A file that changed a moment ago may still be written."""
_MARKS_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """Files that belong together: a manifest with its folder, or one file."""

    name: str
    paths: tuple[Path, ...]
    mark: str
    """Changes when any of its files does."""


@dataclass(slots=True)
class Seen:
    """Which deliveries have been dealt with, kept on disk so that a restart reads nothing again."""

    file: Path
    _marks: dict[str, str] = field(default_factory=dict)
    _read: bool = False

    def knows(self, delivery: Delivery) -> bool:
        """Whether this very state of it has been dealt with."""
        if not self._read:
            self._read, self._marks = True, _marks_in(self.file)
        return self._marks.get(delivery.name) == delivery.mark

    def add(self, delivery: Delivery) -> None:
        """It has been dealt with."""
        self._marks.pop(delivery.name, None)
        self._marks[delivery.name] = delivery.mark
        while len(self._marks) > _MARKS_KEPT:
            self._marks.pop(next(iter(self._marks)))
        replace_file(self.file, json.dumps(self._marks).encode())


def _marks_in(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}  # all is looked at once more, and found to be known by its content
    return {str(name): str(mark) for name, mark in found.items()} if isinstance(found, dict) else {}


def deliveries_in(folder: Path, now: datetime) -> Sequence[Delivery]:
    """What lies in a folder and is at rest, the oldest first: a manifest's folder as a whole, other files one by one.

    Of several manifests about the same export and period the newest alone is a delivery.
    """
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
    found = [
        Delivery(str(paths[0].relative_to(folder)), tuple(paths), _mark(covered))
        for paths, covered in _grouped(files)
        if _at_rest(covered, now)
    ]
    return sorted(found, key=lambda delivery: (delivery.paths[0].stat().st_mtime, delivery.name))


def _grouped(files: Sequence[Path]) -> Iterator[tuple[Sequence[Path], Sequence[Path]]]:
    """(what to import, what it rests on). Files of a manifest come with it alone."""
    manifests = [each for each in files if is_manifest(each.name)]
    current = _current(manifests)
    for each in files:
        if each in manifests:
            if each not in current:
                continue
            yield [each], [other for other in files if any(home in other.parents for home in homes(each))]
        elif not bound(each, manifests):
            yield [each], [each]


def _current(manifests: Sequence[Path]) -> Sequence[Path]:
    """Those that count; all of them where one cannot be read, which its import tells."""
    try:
        return [each.file for each in newest(manifests)[0]]
    except Permanent:
        return manifests


def _mark(files: Sequence[Path]) -> str:
    states: Mapping[str, tuple[int, int]] = {
        str(each): (stat.st_size, stat.st_mtime_ns) for each in files if (stat := each.stat())
    }
    return json.dumps(states, sort_keys=True)


def _at_rest(files: Sequence[Path], now: datetime) -> bool:
    newest = max(each.stat().st_mtime for each in files)
    return datetime.fromtimestamp(newest, UTC) <= now - _AT_REST
