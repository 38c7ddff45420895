"""The garbage collector leaves a large heap alone, and still finds cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tidegate.runtime.collector import collect_everything, spare_the_old


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


class Knot:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


def looks_through_all() -> int:
    return int(gc.get_stats()[2]["collections"])


def test_a_heap_that_grows_is_not_looked_through() -> None:
    spare_the_old()
    before = looks_through_all()
    heap = [[number] for number in range(400_000)]
    assert len(heap) == 400_000
    assert looks_through_all() == before


def test_young_cycles_are_found() -> None:
    spare_the_old()
    lost = weakref.ref(Knot())
    heap = [[number] for number in range(20_000)]
    assert len(heap) == 20_000
    assert lost() is None


def test_old_cycles_are_found_at_last() -> None:
    knot = Knot()
    gc.collect()
    spare_the_old()
    lost = weakref.ref(knot)
    del knot
    collect_everything()
    assert lost() is None
