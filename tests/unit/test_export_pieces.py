"""A period is exported in pieces that no step lies across."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.history import METRICS, Aggregate, Question
from tidegate.store.export import Export

SINCE = datetime(2026, 11, 25, tzinfo=UTC)


@given(
    since=st.integers(0, 200_000),
    length=st.integers(1, 400_000),
    step=st.one_of(st.integers(600, 200_000), st.sampled_from([300, 420, 1500, 3600, 28_800, 86_400])),
)
def test_no_step_is_in_two_pieces_and_none_is_left_out(since: int, length: int, step: int) -> None:
    first = SINCE + timedelta(seconds=since)
    wanted = Export(first, first + timedelta(seconds=length), timedelta(seconds=step))
    pieces = list(wanted.pieces())
    assert [begin for begin, _ in pieces] == [first, *(end for _, end in pieces[:-1])]
    assert pieces[-1][1] == wanted.until
    steps = [at for piece in pieces for at in steps_of(*piece, step)]
    assert steps == steps_of(wanted.since, wanted.until, step)


def steps_of(since: datetime, until: datetime, step: int) -> list[int]:
    width = timedelta(seconds=step)
    return list(Question(METRICS["running"], since, until, width, Aggregate.AVG).grid(width))


@pytest.mark.parametrize("step", [None, timedelta(minutes=5)])
def test_pieces_end_where_rows_do(step: timedelta | None) -> None:
    pieces = Export(SINCE + timedelta(hours=3), SINCE + timedelta(hours=20), step).pieces()
    assert [end.hour for _, end in pieces] == [8, 16, 20]
