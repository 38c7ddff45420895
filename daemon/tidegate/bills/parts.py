"""The files of a bill: which they are, and their bytes, unpacked while they are read and never written anywhere."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tidegate.runtime.errors import Permanent

_DATA = (".csv", ".txt", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".gz", ".zip")
_FREE_BYTES = 256 * 1024 * 1024
_LARGEST_RATIO = 250
_MANIFEST_BYTES = 16 * 1024 * 1024
_LARGEST_ENTRIES = 10_000
_ABOVE = 3
"""How many folders above a manifest its keys may start: exports keep metadata and data in folders side by side."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of rows."""

    name: str
    """Without folders."""
    path: Path
    entry: str = ""
    """Its name in the zip, empty outside of one."""
    hints: tuple[str, ...] = ()
    """Words of the folders and of the manifest, where exports say which dataset it is."""
    rows: int | None = None
    """How many a manifest promises."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts of one import."""

    parts: tuple[Part, ...]
    files: tuple[Path, ...]
    """What they lie in, manifests included."""
    left_out: tuple[str, ...] = field(default=())
    """Files beside a manifest that it does not name: of an older delivery."""


def gather(paths: Sequence[Path]) -> Bundle:
    """The parts in files, folders, zips and manifests; raises Permanent with the remedy.

    Where a folder has a manifest, its keys alone are read: older deliveries may lie beside the new one.
    """
    parts: list[Part] = []
    files: list[Path] = []
    left_out: list[str] = []
    for path in paths:
        for file in _files_of(path, left_out):
            files.append(file)
            parts += _parts_of(file, files)
    if not parts:
        raise Permanent(f"{', '.join(map(str, paths))}: no bill file there (csv, json, parquet, gz, zip or a manifest)")
    return Bundle(tuple(dict.fromkeys(parts)), tuple(dict.fromkeys(files)), tuple(left_out))


def _files_of(path: Path, left_out: list[str]) -> Sequence[Path]:
    if not path.exists():
        raise Permanent(f"{path}: there is no such file")
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
    manifests = [each for each in inside if is_manifest(each.name)]
    if manifests:
        named = {part.path for manifest in manifests for part in _of_manifest(manifest, [])}
        left_out += [each.name for each in inside if each not in named and each not in manifests]
        return manifests
    return [each for each in inside if each.suffix.lower() in _DATA]


def is_manifest(name: str) -> bool:
    """Whether a file's name says that it lists others."""
    return name.lower().endswith("manifest.json")


def _parts_of(file: Path, files: list[Path]) -> Sequence[Part]:
    if is_manifest(file.name):
        return _of_manifest(file, files)
    hints = tuple(each.lower() for each in file.parts[-4:])
    if zipfile.is_zipfile(file):
        return [Part(PurePosixPath(name).name, file, name, hints) for name in _entries(file)]
    return [Part(file.name, file, hints=hints)]


def _entries(file: Path) -> Sequence[str]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries if not entry.is_dir()]
    if "[Content_Types].xml" in names:
        raise Permanent(f"{file}: an Excel workbook; save the sheet as CSV (UTF-8)")
    if len(names) > _LARGEST_ENTRIES:
        raise Permanent(f"{file}: {len(names)} files in one zip; unpack it and import the bill's own")
    wanted = [name for name in names if name.lower().endswith(_DATA) and not name.startswith("__MACOSX/")]
    if nested := next((name for name in wanted if name.lower().endswith(".zip")), None):
        raise Permanent(f"{file}: holds another zip ({nested[:80]}); unpack it first")
    return [name for name in wanted if not is_manifest(name)]


def _of_manifest(file: Path, files: list[Path]) -> Sequence[Part]:
    try:
        with file.open("rb") as opened:
            manifest = json.loads(opened.read(_MANIFEST_BYTES))
        listed = list(_keys(manifest))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Permanent(f"{file}: cannot be read as a manifest ({error})") from error
    if not listed:
        raise Permanent(f"{file}: names no files (reportKeys, dataFiles or blobs)")
    kind = str(_inner(manifest, "exportConfig", "type") or _inner(manifest, "runInfo", "exportType") or "").lower()
    parts: list[Part] = []
    for key, rows in listed:
        found = _beside(file, key)
        files.append(found)
        parts += [Part(part.name, part.path, part.entry, (*part.hints, kind), rows) for part in _parts_of(found, files)]
    return parts


def _inner(manifest: Any, *keys: str) -> Any:
    for key in keys:
        manifest = manifest.get(key) if isinstance(manifest, dict) else None
    return manifest


def _keys(manifest: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
    """AWS legacy `reportKeys`, AWS data exports `dataFiles`, Azure `blobs`."""
    for key in [*manifest.get("reportKeys", ()), *manifest.get("dataFiles", ())]:
        yield str(key), None
    for blob in manifest.get("blobs", ()):
        rows = blob.get("dataRowCount")
        yield str(blob["blobName"]), rows if isinstance(rows, int) else None


def _beside(manifest: Path, key: str) -> Path:
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


@contextmanager
def opened(part: Part, progress: Callable[[int], None] | None = None) -> Iterator[IO[bytes]]:
    """The part's bytes, unpacked; raises Permanent on a damaged or absurdly packed file."""
    raw = part.path.open("rb")
    try:
        source: IO[bytes] = cast("IO[bytes]", _Watched(raw, progress)) if progress else raw
        size = part.path.stat().st_size
        if part.entry:
            with (
                zipfile.ZipFile(source) as archive,
                archive.open(part.entry) as inside,
                _plain(inside, part.name, archive.getinfo(part.entry).compress_size, packed=True) as plain,
            ):
                yield plain
        else:
            with _plain(source, part.name, size, packed=False) as plain:
                yield plain
    except (OSError, EOFError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        if isinstance(error, Permanent):
            raise
        raise Permanent(f"{part.name}: cannot be unpacked ({error}); the file is damaged or not complete") from error
    finally:
        raw.close()


@contextmanager
def _plain(source: IO[bytes], name: str, size: int, *, packed: bool) -> Iterator[IO[bytes]]:
    buffered = io.BufferedReader(cast("io.RawIOBase", source), 1 << 18)
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=buffered) as inside:
            yield io.BufferedReader(cast("io.RawIOBase", _Bounded(inside, name, size)), 1 << 18)
    elif packed:
        yield io.BufferedReader(cast("io.RawIOBase", _Bounded(buffered, name, size)), 1 << 18)
    else:
        yield buffered


class _Bounded(io.RawIOBase):
    """Unpacked bytes up to a ratio that no table of text reaches."""

    def __init__(self, source: IO[bytes] | io.BufferedReader | gzip.GzipFile, name: str, packed: int) -> None:
        self._source, self._name = source, name
        self._left = max(_FREE_BYTES, packed * _LARGEST_RATIO)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some; raises Permanent beyond the bound."""
        found = self._source.read(len(buffer))
        self._left -= len(found)
        if self._left < 0:
            raise Permanent(f"{self._name}: unpacks to more than {_LARGEST_RATIO} times its size; it is no bill")
        buffer[: len(found)] = found
        return len(found)


class _Watched(io.RawIOBase):
    """Tells how many bytes of the file have been read."""

    def __init__(self, source: IO[bytes], progress: Callable[[int], None]) -> None:
        self._source, self._progress = source, progress

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """As files are."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move."""
        return self._source.seek(offset, whence)

    def tell(self) -> int:
        """Where it stands."""
        return self._source.tell()

    def readinto(self, buffer: Any) -> int:
        """Read some, and say so."""
        found = self._source.read(len(buffer))
        buffer[: len(found)] = found
        if found:
            self._progress(len(found))
        return len(found)
