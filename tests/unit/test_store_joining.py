"""Group commit: many callers, few writes, each caller its own answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tidegate.runtime.errors import Permanent, Transient
from tidegate.store.joining import Joining

MOST = 8


class Log:
    """Writes numbers; refuses a group with a negative one, and waits until it is let go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.away = False
        self.open = Event()
        self.open.set()

    def write(self, items: Sequence[int]) -> list[int]:
        self.open.wait(30)
        if self.away:
            raise Transient("away")
        if min(items) < 0:
            raise Permanent(f"cannot write {min(items)}")
        self.groups.append(list(items))
        return [item * 10 for item in items]


def test_one_alone_is_written_at_once() -> None:
    log = Log()
    assert Joining(log.write, MOST).submit(3) == 30
    assert log.groups == [[3]]


def test_those_that_come_while_one_writes_go_together_and_each_gets_its_own_answer() -> None:
    log = Log()
    joining = Joining(log.write, MOST)
    log.open.clear()
    with ThreadPoolExecutor(50) as threads:
        answers = [threads.submit(joining.submit, number) for number in range(50)]
        while len(joining._waiting) < 49:
            pass
        log.open.set()
        assert [answer.result() for answer in answers] == [number * 10 for number in range(50)]
    assert sorted(sum(log.groups, [])) == list(range(50))  # noqa: RUF017 - eight lists
    assert len(log.groups[0]) == 1
    assert all(len(group) == MOST for group in log.groups[1:-1])


def test_one_that_cannot_be_written_fails_alone() -> None:
    log = Log()
    joining = Joining(log.write, MOST)
    log.open.clear()
    with ThreadPoolExecutor(6) as threads:
        answers = {number: threads.submit(joining.submit, number) for number in (0, 1, 2, -3, 4, 5)}
        while len(joining._waiting) < 5:
            pass
        log.open.set()
        with pytest.raises(Permanent, match="-3"):
            answers.pop(-3).result()
        assert [answer.result() for answer in answers.values()] == [0, 10, 20, 40, 50]


def test_when_the_database_is_away_all_are_told_and_the_next_one_tries_again() -> None:
    log = Log()
    joining = Joining(log.write, MOST)
    log.away = True
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(joining.submit, number) for number in range(6)]
        for answer in answers:
            with pytest.raises(Transient):
                answer.result()
    log.away = False
    assert joining.submit(7) == 70


def test_a_leader_that_fails_by_a_mistake_of_ours_leaves_nobody_waiting() -> None:
    def broken(_: Sequence[int]) -> list[int]:
        raise KeyError("a mistake")

    joining = Joining(broken, MOST)
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(joining.submit, number) for number in range(6)]
        for answer in answers:
            with pytest.raises((KeyError, Transient)):
                answer.result()


def test_those_that_come_back_again_and_again_all_get_their_own_answers() -> None:
    log = Log()
    joining = Joining(log.write, MOST)

    def often(first: int) -> list[int]:
        return [joining.submit(first + number) for number in range(200)]

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(often, range(0, 2400, 200)))
    assert sum(answers, []) == [number * 10 for number in range(2400)]  # noqa: RUF017 - twelve lists
    assert sorted(sum(log.groups, [])) == list(range(2400))  # noqa: RUF017
    assert (joining._busy, len(joining._waiting)) == (False, 0)
