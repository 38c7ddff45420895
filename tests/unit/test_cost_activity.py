"""When a host counts as seen between two reports: over a report that came late, and never over an outage."""

from __future__ import annotations

import pytest

from tidegate.controller.cost_activity import _bridge

HOST, HOUR = "gpu-1", 500_000
LAST = 1 << 11


@pytest.mark.parametrize(
    ("slots", "seen", "found"),
    [
        (2, {HOUR: 0b1001}, {HOUR: 0b1001}),
        (3, {HOUR: 0b1001}, {HOUR: 0b1111}),
        (2, {HOUR: LAST, HOUR + 1: 0b10}, {HOUR: LAST, HOUR + 1: 0b11}),
        (0, {HOUR: 0b101}, {HOUR: 0b101}),
        (9, {HOUR: 0b100}, {HOUR: 0b100}),
    ],
    ids=["an outage", "late reports", "over the hour", "no patience", "before the first and after the last"],
)
def test_gaps_are_bridged_as_far_as_a_host_may_be_silent(
    slots: int, seen: dict[int, int], found: dict[int, int]
) -> None:
    bits = {(HOST, hour): moments for hour, moments in seen.items()}
    _bridge(bits, slots)
    assert bits == {(HOST, hour): moments for hour, moments in found.items()}


def test_one_host_s_reports_say_nothing_of_another() -> None:
    bits = {("a", HOUR): 0b1, ("b", HOUR): 0b100}
    _bridge(bits, 5)
    assert bits == {("a", HOUR): 0b1, ("b", HOUR): 0b100}
