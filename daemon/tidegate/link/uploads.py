"""Files that are sent to the controller: each under the hash of its bytes, in a folder, until it has been used."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from starlette.concurrency import run_in_threadpool

from tidegate.link.problems import Refused

_BLOCK = 1 << 20


class Uploads:
    """A folder of files by SHA-256; safe for many senders, for the bytes alone decide where they lie."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder, and empties it: what was sent before a restart is sent again."""
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.iterdir():
            if left.is_file():
                left.unlink()

    async def receive(self, sha256: str, body: AsyncIterator[bytes]) -> int:
        """Take a file; returns its size. Raises Refused when the bytes are not those, or find no room."""
        try:
            with NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                try:
                    digest, size, block = hashlib.sha256(), 0, bytearray()
                    async for chunk in body:
                        block += chunk
                        if len(block) >= _BLOCK:
                            size += await run_in_threadpool(_take, file.write, digest.update, bytes(block))
                            block.clear()
                    size += await run_in_threadpool(_take, file.write, digest.update, bytes(block))
                    if digest.hexdigest() != sha256:
                        raise Refused(422, "the bytes are not those of the hash", "send the file again")
                    file.flush()
                    Path(file.name).replace(self.folder / sha256)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise Refused(
                507, f"the file cannot be kept ({error.strerror})", "make room where the controller's state_dir lies"
            ) from error
        return size

    def missing(self, hashes: Iterable[str]) -> list[str]:
        """Which of these files are not here."""
        return [each for each in dict.fromkeys(hashes) if not (self.folder / each).is_file()]

    def discard(self, hashes: Iterable[str]) -> None:
        """Remove files that have been used."""
        for each in hashes:
            (self.folder / each).unlink(missing_ok=True)


def _take(write: Callable[[bytes], int], update: Callable[[bytes], None], block: bytes) -> int:
    update(block)
    write(block)
    return len(block)
