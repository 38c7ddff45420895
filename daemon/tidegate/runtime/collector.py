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


def collect_everything() -> None:
    """Look through all objects once."""
    gc.collect()
