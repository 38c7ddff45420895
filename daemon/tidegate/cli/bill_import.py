"""Hand bill files to the controller: only those that it has not got, each in one stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.bills.orders import hashes_of, order_of
from tidegate.bills.parts import gather
from tidegate.cli.progress import progress_bar
from tidegate.link.bill_client import BillClient

if TYPE_CHECKING:
    from tidegate.bills.wishes import Wishes
    from tidegate.link.bill_messages import BillShape
    from tidegate.link.command_client import CommandClient


def imported(client: CommandClient, files: Sequence[Path], wishes: Wishes, *, force: bool) -> BillShape:
    """What the controller made of the files."""
    bundle = gather(files)
    size = sum(path.stat().st_size for path in {part.path for part in bundle.parts})
    with progress_bar("hashing", size) as hashing:
        hashes = hashes_of(bundle, hashing)
    with progress_bar("sending", size) as sending:
        return BillClient(client).take(order_of(bundle, wishes, hashes, force=force), hashes, sending)
