"""The day's traffic: its shape, its event, and that a seed gives one day and no other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

from tidegate.demo.engine_model import Arrival
from tidegate.demo.traffic import EVENT_END_HOUR, EVENT_START_HOUR, Day, Traffic

DAY = Day(datetime(2026, 11, 24, tzinfo=UTC))
MIDNIGHT = DAY.midnight.timestamp()


def played(seed: int, hours: float = 24.0) -> list[Arrival]:
    return list(Traffic(DAY, Random(seed), MIDNIGHT).until(MIDNIGHT + 3600 * hours))


def per_second(arrivals: Sequence[Arrival], first: float, last: float) -> float:
    return sum(first <= (a.at - MIDNIGHT) / 3600 < last for a in arrivals) / (3600 * (last - first))


def shared(arrivals: Sequence[Arrival], first: float, last: float) -> float:
    """The share of prompt tokens in the hours that an endless cache would know."""
    chosen = [a for a in arrivals if first <= (a.at - MIDNIGHT) / 3600 < last]
    return sum(a.prefix_tokens for a in chosen if a.prefix < 1_000_000) / sum(a.prompt_tokens for a in chosen)


def test_a_day_has_a_night_two_peaks_and_a_spike() -> None:
    """Between fifty and a hundred thousand requests, in the order of the clock, each with its own number."""
    arrivals = played(1)
    assert 50_000 < len(arrivals) < 110_000
    assert [a.id for a in arrivals] == list(range(1, len(arrivals) + 1))
    assert all(earlier.at <= later.at for earlier, later in pairwise(arrivals))
    night, morning, noon = per_second(arrivals, 2, 4), per_second(arrivals, 10, 11), per_second(arrivals, 12.5, 13.5)
    assert night < 0.3 < noon < morning
    assert per_second(arrivals, 20.2, 20.6) > 1.5 * per_second(arrivals, 19, 19.8)


def test_the_event_spoils_what_requests_share() -> None:
    """Around 0.6 of all prompt tokens are shared, under 0.2 while the changed system prompt is out."""
    arrivals = played(1, 18)
    assert 0.5 < shared(arrivals, 9, EVENT_START_HOUR) < 0.7
    assert 0.08 < shared(arrivals, EVENT_START_HOUR, EVENT_END_HOUR) < 0.2
    assert 0.5 < shared(arrivals, EVENT_END_HOUR, 18) < 0.7


def test_the_same_seed_gives_the_same_day_in_any_pieces() -> None:
    """How often it is asked changes nothing; another seed gives another day."""
    pieces = Traffic(DAY, Random(7), MIDNIGHT)
    found = [arrival for hour in range(1, 9) for arrival in pieces.until(MIDNIGHT + 900 * hour)]
    assert found == played(7, 2)
    assert found != played(8, 2)


def test_the_second_day_goes_on_like_the_first() -> None:
    """The curve repeats, so that the demo can be left running."""
    assert DAY.rate(MIDNIGHT + 10 * 3600) == DAY.rate(MIDNIGHT + 34 * 3600)
