"""Hand bill files to the controller: only those that it has not got, each in one stream."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.bills.orders import hashes_of, order_of
from tidegate.bills.parts import gather
from tidegate.cli.progress import progress_bar
from tidegate.cli.remote import client

if TYPE_CHECKING:
    from tidegate.bills.wishes import Wishes
    from tidegate.link.bill_messages import BillShape


def imported(
    controller: str, token_file: Path | None, files: Sequence[Path], wishes: Wishes, *, force: bool
) -> BillShape:
    """What the controller made of the files."""
    bundle = gather(files)
    size = sum(path.stat().st_size for path in {part.path for part in bundle.parts})
    with progress_bar("hashing", size) as hashing, ThreadPoolExecutor(1) as beside:
        hashed = beside.submit(hashes_of, bundle, hashing)
        from tidegate.link.bill_client import BillClient  # takes as long as 400 MB to hash

        bills, hashes = BillClient(client(controller, token_file)), hashed.result()
    with progress_bar("sending", size) as sending:
        return bills.take(order_of(bundle, wishes, hashes, force=force), hashes, sending)
