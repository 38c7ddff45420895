"""From files to an import order: what is said of them, and a hash of it all. Reads no row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tidegate.bills.parts import Bundle
from tidegate.bills.wishes import Wishes
from tidegate.model.bill import BillPart, ImportOrder
from tidegate.runtime.errors import Permanent

_BLOCK = 1 << 18
_HINTS = 8


def order_of(bundle: Bundle, wishes: Wishes, hashes: Mapping[str, str], *, force: bool = False) -> ImportOrder:
    """The import of a bundle. Its `content` is of the bytes and of what is said of them, not of names and order."""
    parts = tuple(
        BillPart(str(part.path), part.name, part.entry, part.hints[-_HINTS:], part.rows) for part in bundle.parts
    )
    order = ImportOrder(
        content="",
        parts=parts,
        source=wishes.source,
        account=wishes.account,
        currency=wishes.currency,
        shard=wishes.shard,
        force=force,
        left_out=bundle.left_out,
        expected=wishes.expected,
    )
    said = [order.source, order.account, order.currency, order.shard]
    said += [f"{order.expected.amount} {order.expected.currency}"] if order.expected else []
    said += [*sorted(hashes.values()), *sorted(f"{part.entry} {part.rows}" for part in parts)]
    return replace(order, content=hashlib.sha256(json.dumps(said).encode()).hexdigest())


def hashes_of(bundle: Bundle, progress: Callable[[int], None] | None = None) -> dict[str, str]:
    """The SHA-256 of every file by its path; raises Permanent when one cannot be read."""
    return {str(path): _hash(path, progress) for path in dict.fromkeys(part.path for part in bundle.parts)}


def _hash(path: Path, progress: Callable[[int], None] | None) -> str:
    digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK))
    try:
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(block):
                digest.update(block[:size])
                if progress:
                    progress(size)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error
    return digest.hexdigest()
