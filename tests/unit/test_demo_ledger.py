"""The gateway's books: every request is in one place, whatever engines answer, refuse or die."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.demo.engine_model import Arrival
from tidegate.demo.ledger import GIVE_UP_AFTER, Ledger, Reply


def arrivals(count: int) -> list[Arrival]:
    return [Arrival(k + 1, float(k), 10, 10, 0, 0) for k in range(count)]


def reply(*finished: int, first: int = 0, started: float = 1.0) -> Reply:
    return Reply(started, first, finished, stopping=False, refused=())


def sent_to(ledger: Ledger, name: str) -> list[Arrival]:
    return list(ledger.books[name].unsent.values())


def started(names: Sequence[str], count: int) -> Ledger:
    """A ledger whose requests have all been taken by the endpoints."""
    ledger = Ledger()
    ledger.set_endpoints(names)
    ledger.arrive(arrivals(count))
    ledger.assign()
    for name in names:
        ledger.answered(name, sent_to(ledger, name), reply(), 0.0)
    return ledger


def test_requests_go_to_the_endpoint_that_owes_the_least() -> None:
    """Five requests over two endpoints: three and two."""
    ledger = started(["a", "b"], 5)
    assert sorted(book.load for book in ledger.books.values()) == [2, 3]


def test_without_an_endpoint_requests_wait_and_are_counted() -> None:
    """Nothing is dropped; the first endpoint gets them in order."""
    ledger = Ledger()
    ledger.arrive(arrivals(3))
    ledger.assign()
    assert (len(ledger.waiting), ledger.outstanding) == (3, 0)
    ledger.set_endpoints(["a"])
    ledger.assign()
    assert [arrival.id for arrival in sent_to(ledger, "a")] == [1, 2, 3]


def test_an_endpoint_that_left_the_list_gets_nothing_new_and_still_answers() -> None:
    """The drain: what it has is awaited, then it is forgotten."""
    ledger = started(["a"], 2)
    ledger.set_endpoints(["b"])
    ledger.arrive([Arrival(9, 9.0, 10, 10, 0, 0)])
    ledger.assign()
    assert [arrival.id for arrival in sent_to(ledger, "b")] == [9]
    ledger.answered("a", [], reply(1, 2), 1.0)
    ledger.set_endpoints(["b"])
    assert (ledger.finished, ledger.losses, set(ledger.books)) == (2, [], {"b"})


def test_an_answer_given_twice_counts_once() -> None:
    """The engine repeats what it was not told is fetched."""
    ledger = started(["a"], 3)
    ledger.answered("a", [], reply(1, 2), 1.0)
    ledger.answered("a", [], reply(1, 2, 3), 2.0)
    assert (ledger.finished, ledger.books["a"].collected) == (3, 3)
    ledger.answered("a", [], reply(first=3), 3.0)
    assert ledger.finished == 3


def test_a_stopping_engine_loses_what_it_held_and_gives_back_what_it_refused() -> None:
    """One finished, one was cut, one had not arrived: it goes elsewhere."""
    ledger = started(["a"], 3)
    ledger.set_endpoints(["b"])
    ledger.answered("a", [], Reply(1.0, 0, [1], stopping=True, refused=[3]), 5.0)
    ledger.assign()
    assert [loss.id for loss in ledger.losses] == [2]
    assert ledger.losses[0].endpoint == "a"
    assert [arrival.id for arrival in sent_to(ledger, "b")] == [3]
    assert (ledger.finished, ledger.moved) == (1, 1)


def test_a_vanished_engine_loses_what_it_held_after_a_while() -> None:
    """One refused connection moves what was not taken; several in a row give up the rest."""
    ledger = started(["a"], 1)
    ledger.arrive([Arrival(9, 9.0, 10, 10, 0, 0)])
    ledger.assign()
    ledger.refused("a", 1.0)
    assert [arrival.id for arrival in ledger.waiting] == [9]
    ledger.assign()
    assert len(ledger.waiting) == 1, "an endpoint that refuses gets nothing new"
    for _ in range(GIVE_UP_AFTER - 1):
        ledger.refused("a", 2.0)
    assert [loss.id for loss in ledger.losses] == [1]


def test_another_process_at_the_same_address_owes_nothing_of_the_old_ones() -> None:
    """The start time tells them apart: the old one's requests are lost, the new one's count from zero."""
    ledger = started(["a"], 2)
    ledger.answered("a", [], reply(1), 1.0)
    ledger.arrive([Arrival(9, 9.0, 10, 10, 0, 0)])
    ledger.assign()
    ledger.answered("a", sent_to(ledger, "a"), reply(started=7.0), 2.0)
    assert [loss.id for loss in ledger.losses] == [2]
    ledger.answered("a", [], reply(9, started=7.0), 3.0)
    assert (ledger.finished, ledger.outstanding) == (2, 0)


steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "list", "answer", "refuse", "stop", "restart"]),
        st.sampled_from("abc"),
        st.integers(0, 4),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_no_request_is_ever_in_two_places_or_in_none(todo: list[tuple[str, str, int]]) -> None:
    """arrived = waiting + owed + finished + lost, after any sequence of events."""
    ledger = Ledger()
    for number, (what, name, count) in enumerate(todo):
        book = ledger.books.get(name)
        if what == "arrive":
            ledger.arrive(Arrival(1000 * number + k, 0.0, 1, 1, 0, 0) for k in range(count))
        elif what == "list":
            ledger.set_endpoints("abc"[:count])
        elif book is None:
            continue
        elif what == "refuse":
            ledger.refused(name, float(number))
        else:
            held = list(book.outstanding)
            began = float(number) if what == "restart" else (book.started or 0.0)
            first = 0 if what == "restart" else book.collected
            finished = [] if what == "restart" else held[:count]
            answer = Reply(began, first, finished, stopping=what == "stop", refused=held[count : count + 1])
            ledger.answered(name, list(book.unsent.values()), answer, float(number))
        ledger.assign()
        assert ledger.arrived == len(ledger.waiting) + ledger.outstanding + ledger.finished + len(ledger.losses)
