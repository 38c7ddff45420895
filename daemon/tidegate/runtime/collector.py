"""Python's garbage collector under a large heap that it can free nothing of.

The collector looks for cycles; everything else goes by itself when its last user lets go of it. By default it looks
through all objects each time a quarter has been added, and no thread runs while it does: a controller of 300 hosts,
with a million objects in its recent past, stood still for up to 0.9 s, several times a minute.
"""

from __future__ import annotations

import gc
from datetime import timedelta

EVERYTHING_EVERY = timedelta(hours=6)
"""Real time between two looks through all objects. What they find are the cycles of things that lived long: connections
and configurations that ended, some kilobytes each."""
_YOUNG, _MIDDLE, _NEVER = 700, 2, 1_000_000_000
"""Thresholds of the three generations. An object is looked at as often whatever they are, so small ones cost no more,
and stop reports for a millisecond at a time; with 5,000 and 5 it was 40 in one piece."""


def spare_the_old() -> None:
    """Have only young objects looked through from now on; call `collect_everything` at `EVERYTHING_EVERY`."""
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)


def settle_young() -> None:
    """Look through the young once more, and never again at those that live on; for after each piece of steady work.

    Left to itself the collector counts what is made less what goes. Where each report takes the place of an earlier
    one that hardly grows: it came twice a second, with 15,000 objects to look through, and again with all of a second
    or two, and everybody waited 12 ms, then 50. What is young after a report is looked through in a tenth of one.
    """
    if gc.get_threshold()[2] == _NEVER:  # in a process that has asked for it
        gc.collect(0)
        gc.freeze()


def collect_everything() -> None:
    """Look through all objects once."""
    gc.unfreeze()
    gc.collect()
