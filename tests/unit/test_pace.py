"""Large work rests between its pieces, in proportion and with a limit; a person's command does not."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from fakes.clock import ManualClock

from tidegate.runtime.pace import NoPace, Pace


class Resting(ManualClock):
    """Notes how long was waited."""

    def __init__(self) -> None:
        super().__init__(datetime(2026, 11, 30, tzinfo=UTC))
        self.rests: list[float] = []

    def wait(self, event: Event, span: timedelta) -> bool:
        self.rests.append(span.total_seconds())
        return super().wait(event, span)


def test_a_rest_is_twice_as_long_as_its_piece_and_a_quarter_of_a_second_at_most() -> None:
    clock = Resting()
    pace = Pace(clock)
    for seconds in (0.05, 0.1, 5.0):
        with pace.piece():
            clock.forward(seconds)
    assert clock.rests == pytest.approx([0.1, 0.2, 0.25])


def test_a_piece_that_fails_is_rested_after_too() -> None:
    clock = Resting()
    with suppress(ValueError), Pace(clock).piece():
        clock.forward(0.1)
        raise ValueError
    assert clock.rests == pytest.approx([0.2])


def test_a_command_does_not_rest() -> None:
    clock = Resting()
    with NoPace(clock).piece():
        clock.forward(5.0)
    assert clock.rests == []
