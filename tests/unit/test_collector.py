"""The garbage collector leaves a large heap alone, and still finds cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tidegate.runtime.collector import collect_everything, settle_young, spare_the_old


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


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


def test_settled_objects_are_not_looked_at_again_but_at_last() -> None:
    spare_the_old()
    heap = [[number] for number in range(500)]
    knot = Knot()
    lost = weakref.ref(knot)
    settle_young()
    assert not any(one is heap[0] for generation in range(3) for one in gc.get_objects(generation=generation))
    del knot
    gc.collect(0)
    assert lost() is not None, "it was settled while it lived"
    collect_everything()
    assert lost() is None


def test_young_cycles_are_found_when_the_young_are_settled() -> None:
    spare_the_old()
    lost = weakref.ref(Knot())
    settle_young()
    assert lost() is None


def test_nothing_is_settled_in_a_process_that_has_not_asked_for_it() -> None:
    before = gc.get_freeze_count()
    settle_young()
    assert gc.get_freeze_count() == before
