"""Who goes first on a busy core."""

from __future__ import annotations

import os
import threading
from contextlib import suppress


def stand_back(by: int) -> None:
    """Make this thread alone nicer, and those that it starts: Linux counts niceness by thread (sched(7)).

    Nothing waits for it while it waits for the interpreter's lock, and it asks for that lock only when it gets the
    core: so threads that answer somebody go first. Where a sandbox forbids it all threads stay alike.
    """
    if by:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + by)
        with suppress(OSError):  # when it wakes it takes the core from nobody who is in the middle of something
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def give_way() -> None:
    """Let whoever waits for the core have it: between two pieces of work of less than a millisecond.

    Linux takes the core from a thread that was there first at its next timer tick only, up to 4 ms later, however nice
    it is, once the one that waits has had its own share. With nobody waiting this costs a microsecond.
    """
    os.sched_yield()
