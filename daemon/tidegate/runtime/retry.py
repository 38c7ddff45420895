"""Wait for what will come by itself: say what is waited for once, and try again ever more slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import TypeVar

import structlog

from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Transient
from tidegate.runtime.lifecycle import Lifecycle

_log = structlog.get_logger()

_DELAYS = (1, 2, 5, 10, 30)
"""Real seconds; the last one repeats."""
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818 - an order, not a fault
    """A stop was asked for while something was waited for."""


def _delays() -> Iterator[timedelta]:
    return (timedelta(seconds=seconds) for seconds in chain(_DELAYS, repeat(_DELAYS[-1])))


def patiently(step: Callable[[], _T], lifecycle: Lifecycle) -> _T:
    """The step's result, tried again while it raises Transient; raises Stopped when a stop is asked for meanwhile."""
    said = ""
    for delay in _delays():
        try:
            return step()
        except Transient as error:
            if str(error) != said:
                said = str(error)
                _log.warning("waiting", what=said)
                lifecycle.status(f"waiting: {said}")
        if SystemClock().wait(lifecycle.stopping, delay):
            raise Stopped
    raise AssertionError("delays never end")
