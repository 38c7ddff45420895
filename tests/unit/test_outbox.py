"""What waits to be fetched: everything once, in order, within a bound, and what the bound costs is counted."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tidegate.controller.heard import Heard, Look, Told
from tidegate.controller.outbox import UNSEEN, Outbox
from tidegate.model.reading import HostName

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def heard(number: int, sizes: list[int]) -> Heard:
    """What came with one batch: a report of each size."""
    return Heard(HostName(f"gpu-{number}"), NOW, [Look("b", NOW, "l", bytes(size)) for size in sizes])


@given(
    batches=st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12),
    most=st.integers(0, 40),
    fetches=st.sets(st.integers(0, 11)),
)
def test_what_is_not_fetched_is_counted(batches: list[list[int]], most: int, fetches: set[int]) -> None:
    """Each batch is fetched once, in order, or its reports are counted as unseen; what waits is within the bound."""
    outbox, found, unseen = Outbox(most), [], 0
    for number, sizes in enumerate(batches):
        outbox.hear(Told([heard(number, sizes)], {"stored": len(sizes)}))
        if number in fetches or number == len(batches) - 1:
            told = outbox.fetch(0)
            assert sum(len(look.values) for one in told.heard for look in one.looks) <= most
            found += [one.host for one in told.heard]
            unseen += told.fates.get(UNSEEN, 0)
    kept = {int(name.removeprefix("gpu-")) for name in found}
    assert len(kept) == len(found)
    assert found == sorted(found, key=lambda name: int(name.removeprefix("gpu-")))
    assert unseen == sum(len(sizes) for number, sizes in enumerate(batches) if number not in kept)
    assert outbox.fetch(0) == Told()


def test_states_take_their_part_of_the_room() -> None:
    """They are as long as a host likes."""
    outbox = Outbox(100)
    outbox.hear(Told([Heard(HostName(f"gpu-{number}"), NOW, state=bytes(60)) for number in range(5)]))
    assert [one.host for one in outbox.fetch(0).heard] == ["gpu-4"]


def test_fates_are_added_up() -> None:
    outbox = Outbox()
    outbox.hear(Told(fates={"stored": 2}))
    outbox.hear(Told(fates={"stored": 1, "malformed": 1}))
    assert outbox.fetch(0) == Told((), {"stored": 3, "malformed": 1})


def test_whoever_fetches_is_woken_by_news_and_by_the_end() -> None:
    outbox = Outbox()
    found: list[Told] = []
    waiting = threading.Thread(target=lambda: found.append(outbox.fetch(600)))
    waiting.start()
    outbox.hear(Told(fates={"stored": 1}))
    waiting.join(20)
    assert found == [Told((), {"stored": 1})]
    waiting = threading.Thread(target=lambda: found.append(outbox.fetch(600)))
    waiting.start()
    outbox.close()
    waiting.join(20)
    assert found[1:] == [Told()]
