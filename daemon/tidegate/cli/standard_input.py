"""`-` among the files of a command: what comes through standard input, as a file for as long as it is needed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_DASH = Path("-")


@contextmanager
def with_standard_input(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """The files, `-` replaced by one that holds standard input: bills are read more than once, a pipe cannot be."""
    if _DASH not in files:
        yield files
        return
    with TemporaryDirectory(prefix="tidegate-") as folder:
        held = Path(folder) / "stdin"
        with held.open("wb") as target:
            shutil.copyfileobj(sys.stdin.buffer, target)
        yield [held if file == _DASH else file for file in files]
