"""The files of a bill: which they are, and their bytes, unpacked while they are read and never written anywhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tidegate.bills.manifests import Manifest, beside, is_manifest, newest, read_manifest
from tidegate.runtime.errors import Permanent

_DATA = (".csv", ".txt", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".gz", ".zip")
_FREE_BYTES = 256 * 1024 * 1024
_LARGEST_RATIO = 250
_LARGEST_ENTRIES = 10_000
_HEAD = 4096
_MARKS = (b",", b";", b"\t", b"|", b"{")
"""What a table of text has one of."""


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
    """Files that were found and are not read, each with why."""


def gather(paths: Sequence[Path]) -> Bundle:
    """The parts in files, folders, zips and manifests; raises Permanent with the remedy.

    Where a folder has a manifest, its keys alone are read: older deliveries may lie beside the new one. A file that is
    there twice, under whatever names, counts once.
    """
    parts: list[Part] = []
    files: list[Path] = []
    left_out: list[str] = []
    for path in paths:
        for file in _files_of(path, left_out):
            files.append(file)
            parts += _parts_of(file, files, left_out)
    if not parts:
        raise Permanent(f"{', '.join(map(str, paths))}: no bill file there (csv, json, parquet, gz, zip or a manifest)")
    once = _once(tuple(dict.fromkeys(parts)), left_out)
    return Bundle(once, tuple(dict.fromkeys(files)), tuple(left_out))


def _files_of(path: Path, left_out: list[str]) -> Sequence[Path]:
    if not path.exists():
        raise Permanent(f"{path}: there is no such file")
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
    listing = [each for each in inside if is_manifest(each.name)]
    if listing:
        kept, replaced = newest(listing)
        named = {part.path for manifest in kept for part in _of_manifest(manifest, [], [])}
        left_out += [f"{each.name} (not in the newest manifest)" for each in inside if each not in {*named, *listing}]
        left_out += [f"{each.file.parent.name}/{each.file.name} (of an older delivery)" for each in replaced]
        return [manifest.file for manifest in kept]
    data = [each for each in inside if each.suffix.lower() in _DATA]
    return [each for each in data if not _no_table(each.name, partial(_head_of, each), left_out)]


def _head_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_HEAD)


def _no_table(name: str, head: Callable[[], bytes], left_out: list[str]) -> bool:
    """Whether a file that nobody named is no bill for sure: empty, or a text such as a README."""
    start = head()
    if not start:
        left_out.append(f"{name} (empty)")
    elif name.lower().endswith(".txt") and not any(mark in start.replace(b"\0", b"") for mark in _MARKS):
        left_out.append(f"{name} (no table)")
    else:
        return False
    return True


def _parts_of(file: Path, files: list[Path], left_out: list[str]) -> Sequence[Part]:
    if is_manifest(file.name):
        return _of_manifest(read_manifest(file), files, left_out)
    hints = tuple(each.lower() for each in file.parts[-4:])
    if zipfile.is_zipfile(file):
        return [Part(PurePosixPath(name).name, file, name, hints) for name in _entries(file, left_out)]
    return [Part(file.name, file, hints=hints)]


def _entries(file: Path, left_out: list[str]) -> Sequence[str]:
    with zipfile.ZipFile(file) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        if "[Content_Types].xml" in names:
            raise Permanent(f"{file}: an Excel workbook; save the sheet as CSV (UTF-8)")
        if len(names) > _LARGEST_ENTRIES:
            raise Permanent(f"{file}: {len(names)} files in one zip; unpack it and import the bill's own")
        wanted = [name for name in names if name.lower().endswith(_DATA) and not name.startswith("__MACOSX/")]
        if nested := next((name for name in wanted if name.lower().endswith(".zip")), None):
            raise Permanent(f"{file}: holds another zip ({nested[:80]}); unpack it first")
        wanted = [name for name in wanted if not is_manifest(name)]
        return [name for name in wanted if not _no_table(name, partial(_head_in, archive, name), left_out)]


def _head_in(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as opened:
            return opened.read(_HEAD)
    except (OSError, EOFError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return b"?,"  # is told when it is read in earnest


def _of_manifest(manifest: Manifest, files: list[Path], left_out: list[str]) -> Sequence[Part]:
    parts: list[Part] = []
    for key, rows in manifest.listed:
        found = beside(manifest.file, key)
        files.append(found)
        parts += [
            Part(part.name, part.path, part.entry, (*part.hints, manifest.kind), rows)
            for part in _parts_of(found, files, left_out)
        ]
    return parts


def _once(parts: Sequence[Part], left_out: list[str]) -> tuple[Part, ...]:
    """Each content once: the same bytes under another name are no further bill."""
    alike: dict[tuple[int, int], list[Part]] = {}
    entries: dict[Path, dict[str, tuple[int, int]]] = {}
    for part in parts:
        if part.entry and part.path not in entries:
            with zipfile.ZipFile(part.path) as archive:
                entries[part.path] = {each.filename: (each.file_size, each.CRC) for each in archive.infolist()}
        alike.setdefault(entries[part.path][part.entry] if part.entry else (_size_of(part), -1), []).append(part)
    copies: set[Part] = set()
    for (size, checksum), group in alike.items():
        seen: dict[str, Part] = {}
        for part in group if len(group) > 1 and size else ():
            first = seen.setdefault(_hash_of(part.path) if checksum < 0 else "", part)
            if first is not part:
                copies.add(part)
                left_out.append(f"{part.name} (the same as {first.name})")
    return tuple(part for part in parts if part not in copies)


def _size_of(part: Part) -> int:
    """Of a pipe 0."""
    return part.path.stat().st_size


def _hash_of(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


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
