"""Windows are noted once while they are open, and each time once they are late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidegate.model.reading import HostName
from tidegate.store.windows import LATE, WAIT, Windows, window_of

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TWO_HOURS = timedelta(hours=2)
H1, H2 = HostName("gpu-1"), HostName("gpu-2")


def told(windows: Windows, at: datetime, *hosts: HostName, received_at: datetime | None = None) -> set[HostName]:
    """Which hosts' windows of this moment had to be noted; they are then."""
    noted = windows.unnoted({(host, window_of(at)) for host in hosts}, received_at or at)
    windows.remember(noted, received_at or at)
    return {host for host, _ in noted}


def test_an_open_window_is_noted_once_a_host() -> None:
    windows = Windows()
    assert told(windows, NOON, H1) == {H1}
    assert told(windows, NOON + timedelta(minutes=1), H1, H2) == {H2}
    assert told(windows, NOON + timedelta(minutes=119), H1, H2) == set()


def test_it_is_looked_at_some_time_after_its_end() -> None:
    assert Windows().unnoted({(H1, NOON)}, NOON) == {(H1, NOON): NOON + TWO_HOURS + WAIT}


def test_the_next_window_is_another_and_the_one_before_stays_open_for_what_is_on_its_way() -> None:
    windows, turn = Windows(), NOON + TWO_HOURS
    told(windows, NOON, H1, H2)
    assert told(windows, turn, H1) == {H1}
    last = turn - timedelta(seconds=1)
    assert told(windows, last, H1, H2, received_at=turn + timedelta(seconds=30)) == set()
    assert told(windows, turn, H1, H2) == {H2}


def test_what_comes_late_is_noted_each_time() -> None:
    windows, later = Windows(), NOON + TWO_HOURS + timedelta(minutes=2)
    told(windows, NOON, H1)
    assert windows.unnoted({(H1, NOON)}, later) == {(H1, NOON): later + LATE}
    assert told(windows, NOON, H1, received_at=later) == {H1}
    assert told(windows, NOON, H1, received_at=later) == {H1}


def test_after_forgetting_everything_is_noted_again() -> None:
    windows = Windows()
    told(windows, NOON, H1)
    windows.forget()
    assert told(windows, NOON, H1) == {H1}


def test_a_clock_far_ahead_takes_the_open_windows_of_the_others_from_them_once_only() -> None:
    windows, far = Windows(), NOON + timedelta(days=400)
    told(windows, NOON, H1)
    assert told(windows, far, H2, received_at=NOON) == {H2}
    assert told(windows, NOON, H1) == {H1}
    assert told(windows, far, H2, received_at=NOON) == set()
    assert told(windows, NOON, H1) == set()
