"""The live picture and the plain lines show what the frame holds, and a gap where something is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fakes.demo_status import alert, cost, decision, pool, status
from rich.console import Console

from tidegate.demo.fleet_history import FleetHistory
from tidegate.demo.gateway import Counts
from tidegate.demo.live_view import CELL, Frame, rates, render, sparkline
from tidegate.demo.plain_view import PlainView
from tidegate.demo.receiver import Delivery
from tidegate.model.alert import AlertPhase

DAY = datetime(2026, 11, 24, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)


def frame() -> Frame:
    fleet = FleetHistory()
    pools = [pool("base", ready=2, kv_cache_hit_rate=0.57, queue_depth=3.0), pool("burst", ready=1, starting=1)]
    fleet.see(status(NOON, pools, [alert(AlertPhase.FIRING, NOON)], [decision(7, NOON, "chat needs 4")]))
    return Frame(
        now=NOON,
        since=DAY,
        speed=576.0,
        url="http://127.0.0.1:20000",
        counts=Counts(NOON, arrived=41_000, finished=40_950, outstanding=50),
        traffic=[0.5, 1.0, 2.0],
        fleet=fleet,
        cost=cost(90_000_000, "120.00").total,
        deliveries=[Delivery("m", NOON, verified=True, why="", body={"type": "alert.firing"})],
        controller_away=False,
    )


def drawn(picture: Frame, width: int = 150, height: int = 50) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as captured:
        console.print(render(picture, height))
    return captured.get()


def busy() -> Frame:
    """A frame with more to tell than fits on any screen."""
    full = frame()
    assert full.fleet.last is not None
    decisions = [decision(n, NOON + timedelta(minutes=n), "chat needs many words to say why " * 4) for n in range(20)]
    drops = [alert(AlertPhase.FIRING, NOON, pool_name=name) for name in ("base", "burst")]
    full.fleet.see(full.fleet.last.model_copy(update={"decisions": decisions, "alerts": drops}))
    return replace(full, deliveries=full.deliveries[:1] * 9)


def test_the_picture_shows_traffic_pools_cost_decisions_and_messages() -> None:
    text = drawn(frame())
    for part in (
        "Tuesday 12:00",
        "http://127.0.0.1:20000/",
        "2.00 requests/s",
        "0 lost",
        "■■",
        "0.57",
        "1.33 a million",
        "1 → 2",
        "chat needs 4",
        "alert.firing signature right",
        "firing: hit rate of base fell",
    ):
        assert part in text


def test_the_picture_fits_a_terminal_of_the_usual_size() -> None:
    """Twenty-four lines of eighty columns hold decisions and webhooks, too; a tall one holds more."""
    low = drawn(busy(), width=80, height=24).splitlines()
    assert len(low) == 24
    assert sum("1 → 2" in line for line in low) >= 2
    assert sum("firing" in line for line in low) >= 2
    tall = drawn(busy(), width=80, height=50).splitlines()
    assert sum("1 → 2" in line for line in tall) == 7


def test_before_the_first_status_and_while_the_controller_is_away_it_says_so() -> None:
    empty = replace(frame(), fleet=FleetHistory(), traffic=[], cost=None, controller_away=True)
    assert "starts ..." in drawn(empty)
    assert "the controller does not answer" in drawn(empty)


def test_missing_figures_are_gaps_not_zeros() -> None:
    """The burst pool has no hit rate yet."""
    line = next(line for line in drawn(frame()).splitlines() if "burst" in line and "of 5" in line)
    assert "0.00" not in line
    assert line.count(" - ") >= 5


def test_the_sparkline_scales_to_its_highest_bar() -> None:
    assert sparkline([0.0, 1.0, 8.0]) == " ▁█"
    assert sparkline([]) == ""


def test_rates_are_arrivals_per_cell() -> None:
    """Only from the day's beginning on; the last one over what has passed of it, and not while that is little."""
    history = [Counts(DAY + k * CELL / 4, arrived=600 * k) for k in range(1, 7)]
    assert rates(history, DAY) == [1800 / 900, (3600 - 1800) / 900]
    assert rates(history[:-1], DAY) == [1800 / 900]
    assert rates(history, DAY + timedelta(days=1)) == []


def test_the_plain_view_says_everything_once() -> None:
    """A line a decision, a webhook and an hour; nothing when nothing is new."""
    view = PlainView()
    lines = list(view.lines(frame()))
    assert lines == [
        "12:00 burst 1 -> 2: chat needs 4",
        "12:00 webhook alert.firing, signature right",
        "12:00 2.00 requests/s, 0 lost; base 2 ready, queue 3, hit rate 0.57; burst 1 ready, 1 starting",
    ]
    assert list(view.lines(frame())) == []
