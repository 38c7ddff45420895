"""Nobody but the leader writes what only a leader may: every such transaction checks the term that it works under."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import TypeVar

from sqlalchemy import Connection, select

from tidegate.runtime.errors import Transient
from tidegate.store.schema_leadership import lease

Result = TypeVar("Result")


class Fence:
    """Call `check` first in each transaction that only a leader may commit; jobs run `under` the term they began in.

    The row lock that `check` takes is held to the end of the transaction: a takeover waits for it, a renewal does not.
    So a leader that was frozen in the middle finds, when it wakes up, either its transaction ended by the database
    (Database.begin limits how long one may idle) or its term over, and has changed nothing since.
    """

    def __init__(self) -> None:
        self._thread = local()

    @contextmanager
    def under(self, epoch: int) -> Iterator[None]:
        """What this thread does in the block, it does as the leader of this term."""
        before = getattr(self._thread, "epoch", None)
        self._thread.epoch = epoch
        try:
            yield
        finally:
            self._thread.epoch = before

    def epoch(self) -> int | None:
        """The term that this thread works under; None outside of any."""
        found: int | None = getattr(self._thread, "epoch", None)
        return found

    def carried(self, work: Callable[[], Result]) -> Callable[[], Result]:
        """The work, to be done by another thread under the term that this one works under."""
        epoch = self.epoch()

        def run() -> Result:
            if epoch is None:
                return work()
            with self.under(epoch):
                return work()

        return run

    def check(self, connection: Connection) -> None:
        """Raise Transient unless this thread works under the term that runs."""
        epoch = self.epoch()
        if epoch is None:
            raise Transient("this controller does not lead: nothing is changed")
        # KEY SHARE: beside a renewal, which changes no key, and against a takeover, which locks the row for update.
        ours = select(lease.c.name).where(lease.c.epoch == epoch).with_for_update(read=True, key_share=True)
        if connection.execute(ours).first() is None:
            raise Transient(f"term {epoch} of this controller is over, another one leads: nothing is changed")


class NoFence(Fence):
    """For a person's own command, which nobody is elected for, and for one controller alone in tests."""

    def check(self, connection: Connection) -> None:
        """Let everything pass."""
