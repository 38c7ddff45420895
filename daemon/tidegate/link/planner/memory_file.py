"""The planner's memory in a file: replaced in one step after each line, so that a crash leaves the old or the new."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.model.memory import Memory
from tidegate.model.memory_json import memory_from, memory_json
from tidegate.runtime.errors import Permanent
from tidegate.runtime.files import replace_file

News = tuple[str, ...]
"""What to tell of the file, each with the remedy; nothing when all is well."""


def read_memory(file: Path | None) -> tuple[Memory, News]:
    """The memory in the file, an empty one where there is none yet.

    A file that is no memory of ours, or a later version's, is put aside as FILE.refused and said; learning begins
    anew. Raises Permanent when the file or its folder cannot be used at all.
    """
    if file is None:
        return Memory(), ()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        data = None
    except OSError as error:
        raise Permanent(f"--memory {file}: {error.strerror}; name a file in a folder of this user") from error
    if data is None:
        _replace(file, Memory())
        return Memory(), ()
    try:
        kept = memory_from(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Memory(), (_aside(file, f"is not a planner's memory ({type(error).__name__})"),)
    if kept is None:
        return Memory(), (_aside(file, "was written by a later version of tidegate"),)
    return kept, ()


def write_memory(file: Path | None, memory: Memory) -> News:
    """Replace the file; when that fails the plan still counts, and the next answer says what is wrong."""
    if file is None:
        return ()
    try:
        _replace(file, memory)
    except Permanent as error:
        return (str(error),)
    return ()


def _replace(file: Path, memory: Memory) -> None:
    """Replace the file; raises Permanent with the remedy."""
    try:
        replace_file(file, json.dumps(memory_json(memory), separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise Permanent(
            f"--memory {file} cannot be written ({error.strerror}): what is learned now is lost at a restart; "
            "name a file in a folder that this user may write"
        ) from error


def _aside(file: Path, what: str) -> str:
    refused = file.with_name(file.name + ".refused")
    try:
        file.replace(refused)
    except OSError as error:
        raise Permanent(f"--memory {file} {what} and cannot be moved ({error.strerror}); move it away") from error
    return f"--memory {file} {what}: it is kept as {refused.name}, and learning begins anew"
