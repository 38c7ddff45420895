"""Hand bill files to the controller: only those that it has not got, each in one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.bills.parts import gather
from tidegate.cli.progress import progress_bar
from tidegate.link.bill_client import BillClient, content_of, hash_of
from tidegate.model.bill import BillPart, ImportOrder

if TYPE_CHECKING:
    from tidegate.bills.reading import Wishes
    from tidegate.link.bill_messages import BillShape
    from tidegate.link.command_client import CommandClient


def imported(client: CommandClient, files: Sequence[Path], wishes: Wishes, *, force: bool) -> BillShape:
    """What the controller made of the files."""
    bundle = gather(files)
    paths = list(dict.fromkeys(part.path for part in bundle.parts))
    size = sum(path.stat().st_size for path in paths)
    with progress_bar("hashing", size) as hashing:
        hashes = {str(path): hash_of(path, hashing) for path in paths}
    order = ImportOrder(
        content="",
        parts=tuple(
            BillPart(str(part.path), part.name, part.entry, part.hints[-8:], part.rows) for part in bundle.parts
        ),
        source=wishes.source,
        account=wishes.account,
        currency=wishes.currency,
        shard=wishes.shard,
        force=force,
        left_out=bundle.left_out,
    )
    order = replace(order, content=content_of(order, list(hashes.values())))
    with progress_bar("sending", size) as sending:
        return BillClient(client).take(order, hashes, sending)
