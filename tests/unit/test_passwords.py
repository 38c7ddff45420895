"""Passwords: right once is quick afterwards, a name that nobody has costs the same, guesses do not pile up."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.runtime.guard import credentials
from tidegate.runtime.passwords import Passwords, TooManyGuesses

USERS = {"a": bcrypt.hashpw(b"tide", bcrypt.gensalt(4)), "b": bcrypt.hashpw(b"ebb", bcrypt.gensalt(4))}


class Counted:
    """The real check, counted."""

    def __init__(self) -> None:
        self.against: list[bytes] = []

    def __call__(self, password: bytes, against: bytes) -> bool:
        self.against.append(against)
        return bcrypt.checkpw(password, against)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def passwords(counted: Counted) -> Iterator[Passwords]:
    made = Passwords(counted)
    yield made
    made.close()


def right(passwords: Passwords, name: str, password: bytes) -> bool:
    return asyncio.run(passwords.right(USERS, name, password))


def test_what_was_right_is_hashed_once(passwords: Passwords, counted: Counted) -> None:
    assert all(right(passwords, "a", b"tide") for _ in range(3))
    assert len(counted.against) == 1


def test_a_wrong_password_and_an_unknown_name_each_cost_a_hash_every_time(
    passwords: Passwords, counted: Counted
) -> None:
    for name, password in (("a", b"ebb"), ("nobody", b"tide"), ("a", b"x" * 100), ("a", b"ti\0de")):
        before = len(counted.against)
        assert not right(passwords, name, password)
        assert not right(passwords, name, password)
        assert len(counted.against) == before + 2


def test_a_hash_that_was_replaced_is_asked_anew(passwords: Passwords) -> None:
    assert right(passwords, "a", b"tide")
    changed = {"a": bcrypt.hashpw(b"flood", bcrypt.gensalt(4))}
    assert not asyncio.run(passwords.right(changed, "a", b"tide"))


def test_guesses_beyond_what_one_core_checks_soon_are_turned_away() -> None:
    gate = threading.Event()

    def slow(_: bytes, __: bytes) -> bool:
        return gate.wait(10.0) and False

    async def guess() -> list[bool | BaseException]:
        passwords = Passwords(slow)
        tasks = [asyncio.ensure_future(passwords.right(USERS, "a", b"%d" % number)) for number in range(40)]
        await asyncio.sleep(0)
        gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        passwords.close()
        return answers

    answers = asyncio.run(guess())
    assert sum(isinstance(answer, TooManyGuesses) for answer in answers) == 24
    assert answers.count(False) == 16


@given(name=st.text().filter(lambda text: ":" not in text), password=st.binary())
def test_every_name_and_password_comes_through_the_header(name: str, password: bytes) -> None:
    token = base64.b64encode(name.encode("utf-8", "surrogatepass") + b":" + password)
    given = credentials([(b"authorization", b"Basic " + token)])
    assert given is None or given == (name, password)


@given(st.binary())
def test_no_header_is_too_strange(value: bytes) -> None:
    credentials([(b"authorization", value)])
    credentials([(b"authorization", b"Basic " + value)])
