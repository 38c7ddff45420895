"""The demo's verdicts: a good day passes, and each broken promise is told by its own line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from fakes.demo_status import alert, cost, pool, status

from tidegate.demo.fleet_history import FleetHistory
from tidegate.demo.gateway import Counts
from tidegate.demo.receiver import Delivery
from tidegate.demo.summary import summarize
from tidegate.demo.verdicts import Facts, settled
from tidegate.model.alert import AlertPhase
from tidegate.model.money import CostState

DAY = datetime(2026, 11, 24, tzinfo=UTC)


def at(hour: float) -> datetime:
    return DAY + timedelta(hours=hour)


def good_day() -> FleetHistory:
    fleet = FleetHistory()
    for hour, ready, starting, leaving in [(0, 0, 0, 0), (7, 0, 1, 0), (9, 3, 0, 0), (11, 4, 0, 0), (23, 0, 0, 1)]:
        pools = [pool("base", ready=2), pool("burst", ready=ready, starting=starting, leaving=leaving)]
        fleet.see(status(at(hour), pools))
    fleet.see(status(at(14.5), [], [alert(AlertPhase.FIRING, at(14.4))]))
    fleet.see(status(at(16), [], [alert(AlertPhase.RESOLVED, at(14.4), at(15.9), value=0.57)]))
    fleet.see(status(at(23.5), [pool("base", ready=2), pool("burst")]))
    return fleet


def good_facts() -> Facts:
    delivered = [Delivery(str(k), at(hour), verified=True, why="") for k, hour in enumerate((14.41, 15.91))]
    return Facts(
        since=DAY,
        speed=576.0,
        counts=Counts(at(24), arrived=1000, finished=1000, tokens=2_000_000),
        closed=True,
        fleet=good_day(),
        costs=cost(tokens=2_000_100, amount="200.00"),
        tokens=2_000_100.0,
        deliveries=delivered,
        burst="burst",
        event=(at(14), at(15.5)),
        billed=[
            cost(tokens=2_000_100, amount="100.00", state=CostState.PARTIAL),
            cost(tokens=2_000_100, amount="151.00", state=CostState.FINAL),
            cost(tokens=2_000_100, amount="150.25", state=CostState.FINAL),
        ],
        bill_total=Decimal("150.25"),
    )


def failed(facts: Facts) -> list[str]:
    return [verdict.text for verdict in summarize(facts).verdicts if not verdict.ok]


def test_a_good_day_passes_and_says_its_figures() -> None:
    """Eight sentences, each with numbers; the data carry the path of every pool."""
    summary = summarize(good_facts())
    assert failed(good_facts()) == []
    text = "\n".join(verdict.text for verdict in summary.verdicts)
    assert "1,000 of 1,000 requests answered, 0 lost by scale-in" in text
    assert "burst pool: 0 until 07:00, peak 4 at 11:00, 0 again at 23:30" in text
    assert "100.00 USD per million tokens (estimated)" in text
    assert "fired at 14:24 (base 0.13 against 0.57) and resolved at 15:54" in text
    data = summary.data()
    assert data["ok"] is True
    assert [size["ready"] for size in data["pools"]["burst"]] == [0, 0, 3, 4, 0, 0]
    assert data["alerts"][0]["resolved_at"] == at(15.9).isoformat()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"counts": Counts(at(24), arrived=1000, finished=999, lost=1, tokens=2_000_000)}, "1 lost by scale-in"),
        ({"counts": Counts(at(24), arrived=1000, finished=990, tokens=2_000_000)}, "990 of 1,000 requests answered"),
        ({"counts": Counts(at(24), arrived=1000, finished=1000, tokens=3_000_000)}, "33.33% off"),
        ({"costs": cost(tokens=2_000_000, amount=None)}, "no cost per million tokens (a price is missing)"),
        ({"bill_total": Decimal("150.24")}, "150.25 of 150.24 USD shared out"),
        ({"billed": []}, "no bill was imported"),
        ({"deliveries": []}, "0 webhooks arrived for 2 transitions"),
        ({"event": (at(3), at(4))}, "no hit-rate alert fired between 03:00 and 04:00"),
        ({"fleet": FleetHistory()}, "the burst pool never had a ready replica"),
    ],
)
def test_each_broken_promise_is_told(change: dict[str, object], told: str) -> None:
    """A lost request, an unanswered one, tokens that disagree, no price, no webhook, no alert, no burst."""
    texts = failed(replace(good_facts(), **change))
    assert any(told in text for text in texts), texts


def test_a_webhook_with_a_wrong_signature_fails_the_day() -> None:
    bad = [*good_facts().deliveries[:1], Delivery("x", at(16), verified=False, why="no signature fits")]
    assert failed(replace(good_facts(), deliveries=bad)) == [
        "2 webhooks arrived for 2 transitions, 1 with a right signature"
    ]


def test_an_alert_outside_of_the_event_is_a_false_alarm() -> None:
    facts = good_facts()
    facts.fleet.see(status(at(23.6), [], [alert(AlertPhase.FIRING, at(20), pool_name="burst")]))
    assert any("1 more at other times" in text for text in failed(facts))


def test_requests_in_flight_are_no_failure_while_the_traffic_goes_on() -> None:
    counts = Counts(at(24), arrived=1010, finished=1000, outstanding=10, tokens=2_000_000)
    assert failed(replace(good_facts(), counts=counts, closed=False)) == []


def test_a_fleet_is_settled_when_burst_is_empty_and_all_was_told() -> None:
    """Not while a replica leaves, not while a resolve is owed."""
    facts = good_facts()
    assert settled(facts.fleet, "burst", facts.deliveries)
    assert not settled(facts.fleet, "burst", facts.deliveries[:1])
    facts.fleet.see(status(at(24), [pool("burst", leaving=1)]))
    assert not settled(facts.fleet, "burst", facts.deliveries)
    assert Decimal(summarize(facts).data()["cost"]["total"]["amount"]) == 200
