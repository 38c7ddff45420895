"""The process that does the store's housekeeping: `python -m tidegate.store.housekeeper`, started by a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from tidegate.runtime.aside import Work, answer_calls
from tidegate.runtime.log import configure
from tidegate.runtime.pace import Pace
from tidegate.store.database import open_database
from tidegate.store.fence import Fence
from tidegate.store.store import Store


def works_of(store: Store) -> Mapping[str, Callable[..., object]]:
    """Everything that is done here, by the name that it is called by."""
    return {
        "usage": store.usage.roll_up,
        "pools": store.figures.roll_up,
        "boards": store.figures.prune,
        "compaction": store.compaction.compact,
        "retention": store.retention.prune,
    }


def open_work(dsn: str) -> Work:
    """Works on this database, each call under the term of its caller."""
    fence = Fence()
    works = works_of(Store(open_database(dsn), fence, Pace()))

    def work(name: str, epoch: int | None, *arguments: object) -> object:
        term: AbstractContextManager[None] = nullcontext() if epoch is None else fence.under(epoch)
        with term:
            return works[name](*arguments)

    return work


if __name__ == "__main__":
    configure()
    answer_calls(open_work)
