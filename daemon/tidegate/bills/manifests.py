"""Manifests: which files are one delivery, and which delivery of several is the newest.

AWS lists `reportKeys` (legacy, in a folder for each assembly and once more above them) or `dataFiles` (data exports, in
a folder for each execution), Azure lists `blobs` (in a folder for each run). Older deliveries stay beside newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

from tidegate.runtime.errors import Permanent

_BYTES = 16 * 1024 * 1024
_METADATA = "metadata"
_ABOVE = 3
"""How many folders above a manifest its keys may start: exports keep metadata and data in folders side by side."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest, read."""

    file: Path
    listed: tuple[tuple[str, int | None], ...]
    """Keys, and how many rows each is promised to have."""
    kind: str
    """The provider's word for the dataset."""
    about: tuple[str, ...]
    """Export and period; empty where it does not say. Of several about the same the newest counts."""
    made: tuple[str, str]
    """Grows with time: when it says it was made, then the time that its folder is named by."""

    @property
    def newness(self) -> tuple[int, tuple[str, str], float]:
        """What the newest has most of: the one nearest to the root points at the newest of those below it."""
        return -len(self.file.parts), self.made, self.file.stat().st_mtime


def is_manifest(name: str) -> bool:
    """Whether a file's name says that it lists others."""
    return name.lower().endswith("manifest.json")


P = TypeVar("P", bound=PurePath)


def homes(manifest: P) -> tuple[P, ...]:
    """The folders whose files are a manifest's: its own, and of AWS data exports the same under `data`."""
    folder = manifest.parent
    if _METADATA not in folder.parts:
        return (folder,)
    return folder, _data_of(folder).joinpath(*folder.parts[_place_of(folder) + 1 :])


def bound(file: PurePath, manifests: Iterable[PurePath]) -> bool:
    """Whether a file comes with a manifest, here or still to be written, and never alone."""
    folders = {each.parent for each in manifests}
    folders |= {_data_of(folder) for folder in folders if _METADATA in folder.parts}
    return any(folder in file.parents for folder in folders)


def _place_of(folder: PurePath) -> int:
    return len(folder.parts) - 1 - folder.parts[::-1].index(_METADATA)


def _data_of(folder: P) -> P:
    return type(folder)(*folder.parts[: _place_of(folder)], "data")


def read_manifest(file: Path) -> Manifest:
    """Raises Permanent with the file's name."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(_BYTES))
        listed = tuple(_keys(found))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Permanent(f"{file}: cannot be read as a manifest ({error})") from error
    if not listed:
        raise Permanent(f"{file}: names no files (reportKeys, dataFiles or blobs)")
    kind = str(_inner(found, "exportConfig", "type") or _inner(found, "runInfo", "exportType") or "").lower()
    made = _inner(found, "runInfo", "submittedTime") or found.get("createdAt") or ""
    folder = file.parent.name
    made_at = (str(made), folder if folder[:4].isdigit() and "-" in folder else "")
    return Manifest(file, listed, kind, _about(found, file), made_at)


def _inner(manifest: Any, *keys: str) -> Any:
    for key in keys:
        manifest = manifest.get(key) if isinstance(manifest, dict) else None
    return manifest


def _keys(manifest: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
    for key in [*manifest.get("reportKeys", ()), *manifest.get("dataFiles", ())]:
        yield str(key), None
    for blob in manifest.get("blobs", ()):
        rows = blob.get("dataRowCount")
        yield str(blob["blobName"]), rows if isinstance(rows, int) else None


def _about(manifest: dict[str, Any], file: Path) -> tuple[str, ...]:
    period = next((part for part in reversed(file.parts) if part.upper().startswith("BILLING_PERIOD=")), "")
    start = _inner(manifest, "runInfo", "startDate") or _inner(manifest, "billingPeriod", "start") or period
    export = (
        _inner(manifest, "exportConfig", "resourceId")
        or _inner(manifest, "exportConfig", "exportName")
        or manifest.get("exportArn")
        or manifest.get("reportName")
        or ("" if file.name.lower() == "manifest.json" else file.name)
    )
    return (str(manifest.get("account") or ""), str(export), str(start)) if export and start else ()


def newest(files: Sequence[Path]) -> tuple[Sequence[Manifest], Sequence[Manifest]]:
    """(manifests that count, those that a newer one about the same replaces). Raises Permanent."""
    kept: dict[tuple[str, ...], Manifest] = {}
    replaced: list[Manifest] = []
    for manifest in sorted((read_manifest(file) for file in files), key=lambda each: each.newness, reverse=True):
        key = manifest.about or ("", str(manifest.file))
        if key in kept:
            replaced.append(manifest)
        else:
            kept[key] = manifest
    return sorted(kept.values(), key=lambda each: each.file), replaced


def beside(manifest: Path, key: str) -> Path:
    """The file that a key of a bucket names, below the manifest's folder or one of the three above."""
    pieces = PurePosixPath(key.partition("://")[2] or key).parts
    pieces = pieces[1:] if pieces[:1] == ("/",) else pieces
    if not pieces or any(piece in ("..", ".") or "\\" in piece or "\0" in piece for piece in pieces):
        raise Permanent(f"{manifest}: the key {key[:100]!r} does not name a file below it")
    if is_manifest(pieces[-1]):
        raise Permanent(f"{manifest}: names another manifest ({key[:100]})")
    for folder in [manifest.parent, *manifest.resolve().parents[1 : 1 + _ABOVE]]:
        for first in range(len(pieces)):
            found = folder.joinpath(*pieces[first:])
            if found.is_file() and found.resolve().is_relative_to(folder.resolve()):
                return found
    raise Permanent(f"{manifest}: {key[:200]} is not here: the delivery is incomplete; fetch it and try again")
