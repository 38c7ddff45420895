"""When long polls end: everybody's at another moment, also when all have begun at the same one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.link.report_endpoint import end_of_wait
from tidegate.model.reading import HostName


@given(
    host=st.text(min_size=1, max_size=20),
    now=st.floats(0, 1e7),
    wait=st.floats(0.1, 25),
    late=st.lists(st.floats(0.001, 0.05), min_size=4, max_size=8),
)
def test_each_host_finds_its_place_in_the_wait_and_keeps_it(
    host: str, now: float, wait: float, late: list[float]
) -> None:
    """From the third poll on they end a whole wait apart, however late each is asked; none is longer than was asked."""
    ends = []
    for delay in late:
        ends.append(end_of_wait(HostName(host), now, wait))
        assert now + wait / 4 - 1e-6 <= ends[-1] <= now + wait + 1e-6
        now = ends[-1] + min(delay, wait / 5)
    assert all(abs(after - before - wait) < 1e-6 for before, after in pairwise(ends[1:]))


def test_hosts_that_come_together_do_not_end_together() -> None:
    """After a restart of the controller everybody comes at once."""
    ends = [end_of_wait(HostName(f"gpu-{number}"), 1000.0, 20.0) for number in range(2_000)]
    fullest = Counter(int(end * 10) for end in ends).most_common(1)[0][1]
    assert fullest < 40, "of 2,000 in the fullest tenth of a second, where 20 would be even"
