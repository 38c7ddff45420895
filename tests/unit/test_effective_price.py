"""The prices that decisions go by: learned from bills, bounded, and as configured where bills say nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from fakes import world as tiny
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, World, fleet_policy
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.pool_view import explanation
from tidegate.controller.learned_prices import LearnedPrices
from tidegate.cost.calibration import calibrate
from tidegate.cost.effective_price import LEAST, MOST, Lessons, effective_prices, with_prices
from tidegate.decide.plan import plan
from tidegate.expose.explain_rows import explain_rows
from tidegate.expose.words import Words
from tidegate.link.pool_answers import explanation as answer
from tidegate.model.allocation import Reconciled
from tidegate.model.decision import Limit, Plan
from tidegate.model.fleet import Fleet, PoolName
from tidegate.model.memory import Memory
from tidegate.model.policy import Budget, Flavour, FleetPolicy
from tidegate.model.price import FlavourPrice, Price, Prices, PriceSource
from tidegate.model.reading import HostName
from tidegate.runtime.errors import Transient

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
BASE = PoolName("base")


def policy(price: str | None = "2", hosts: tuple[HostName, ...] = (H1, H2), currency: str = "USD") -> FleetPolicy:
    fleet = fleet_policy()
    amount = None if price is None else Decimal(price)
    flavour = Flavour("spot", hosts=hosts, price_per_gpu_hour=amount, currency=currency)
    return replace(fleet, pools={**fleet.pools, BASE: replace(fleet.pools[BASE], flavours=(flavour,))})


def lessons(paid: dict[HostName, str], prices: Prices | None = None, sku: str = "") -> Lessons:
    """Each host was billed this for a day of 24 GPU hours that were listed at 48."""
    rows = [
        Reconciled(
            date(2026, 11, 24), "aws", sku or host, "eu", "spot", "USD", host, Decimal(24), Decimal(cost), Decimal(48)
        )
        for host, cost in paid.items()
    ]
    return Lessons(calibrate(rows), prices or Prices())


def of_base(fleet: FleetPolicy, said: Lessons) -> FlavourPrice:
    (found,) = [each for each in effective_prices(fleet, said, NOW) if each.pool == BASE]
    return found


def test_a_learned_price_replaces_the_configured_one() -> None:
    fleet = policy()
    found = of_base(fleet, lessons({H1: "36"}))
    assert (found.per_gpu_hour, found.source, found.bounded) == (Decimal("1.5"), PriceSource.BILLS, False)
    assert (found.configured, found.days, found.last) == (2, 1, date(2026, 11, 24))
    governed = with_prices(fleet, [found])
    assert governed.pools[BASE].first_flavour.price_per_gpu_hour == Decimal("1.5")
    assert fleet.pools[BASE].first_flavour.price_per_gpu_hour == 2
    assert governed == replace(fleet, pools=governed.pools)


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (policy(), lessons({})),
        (policy(), lessons({HostName("elsewhere"): "36"})),
        (policy(currency="EUR"), lessons({H1: "36"})),
        (policy(), lessons({H1: "-1"})),
    ],
)
def test_where_nothing_was_learned_the_configured_price_stays(fleet: FleetPolicy, said: Lessons) -> None:
    found = of_base(fleet, said)
    assert (found.per_gpu_hour, found.source) == (2, PriceSource.CONFIGURED)
    assert with_prices(fleet, effective_prices(fleet, said, NOW)) is fleet


def test_an_unknown_price_stays_unknown_unless_a_price_file_knows_it() -> None:
    assert of_base(policy(None), lessons({H1: "36"})).source is PriceSource.UNKNOWN
    listed = Prices([Price("aws", "p5", "USD", Decimal(32), gpus=8)])
    found = of_base(policy(None), lessons({H1: "36"}, listed, "p5"))
    assert (found.per_gpu_hour, found.configured, found.source) == (3, None, PriceSource.BILLS)


@pytest.mark.parametrize(("paid", "kept", "said"), [("480", "10", "20"), ("4.8", "0.4", "0.2")])
def test_no_bill_moves_a_price_beyond_a_fifth_and_five_times(paid: str, kept: str, said: str) -> None:
    found = of_base(policy(), lessons({H1: paid}))
    assert (found.per_gpu_hour, found.billed, found.bounded) == (Decimal(kept), Decimal(said), True)


def test_hosts_weigh_as_many_gpus_as_they_have() -> None:
    fleet = policy()
    one, two = fleet.hosts[H1], fleet.hosts[H2]
    fleet = replace(fleet, hosts={**fleet.hosts, H1: replace(one, gpus=3), H2: replace(two, gpus=1)})
    assert of_base(fleet, lessons({H1: "24", H2: "72"})).per_gpu_hour == Decimal("1.5")


@given(st.decimals("0.01", 100, places=2), st.lists(st.decimals("0.01", 100_000, places=2), min_size=1, max_size=2))
def test_a_price_stays_within_its_bounds_whatever_bills_say(price: Decimal, paid: list[Decimal]) -> None:
    found = of_base(policy(str(price)), lessons(dict(zip((H1, H2), map(str, paid), strict=False))))
    assert found.per_gpu_hour is not None
    assert price * LEAST <= found.per_gpu_hour <= price * MOST
    assert found.bounded or abs((found.billed or 0) - found.per_gpu_hour) == 0


class Ledger:
    """Reads, counted; away when told so."""

    def __init__(self, said: Lessons) -> None:
        self.said, self.reads, self.away = said, 0, False

    def __call__(self) -> Lessons:
        self.reads += 1
        if self.away:
            raise Transient("the database is away")
        return self.said


def test_a_tick_reads_the_ledger_once_and_keeps_what_it_knew() -> None:
    ledger = Ledger(lessons({H1: "36"}))
    prices = LearnedPrices(ledger)
    for _ in range(3):
        governed, _ = prices.govern(policy(), NOW)
    assert ledger.reads == 1
    ledger.away = True
    with pytest.raises(Transient):
        prices.refresh()
    assert prices.govern(policy(), NOW)[0] == governed
    with pytest.raises(Transient):
        LearnedPrices(ledger).govern(policy(), NOW)


def test_plans_go_by_it_and_explanations_say_so() -> None:
    seen: list[FleetPolicy] = []

    def spy(fleet: Fleet, told: FleetPolicy, memory: Memory, now: datetime) -> Plan:
        seen.append(told)
        return plan(fleet, told, memory, now)

    world = World(ManualClock(NOW), planner=spy)
    configured = policy()
    world.settings = replace(world.settings, fleet=configured)
    world.current.reload(NOW)
    ledger = Ledger(lessons({H1: "480"}))
    world.tick.prices.read = ledger
    world.tick(NOW)
    assert seen[-1].pools[BASE].first_flavour.price_per_gpu_hour == 10

    overview = world.state.overview()
    (pool,) = [each for each in overview.pools if each.policy.name == BASE]
    assert pool.policy.first_flavour.price_per_gpu_hour == 2
    lines = "\n".join(explanation(answer(pool, overview, NOW)))
    assert "price      spot: 10 USD per GPU hour, learned from bills to 2026-11-24 (days: 1) (configured 2)" in lines
    assert "bills say 20, kept within a fifth and five times" in lines
    for language, said in (("en", "bills say 20: kept in 0.2..5 x configured"), ("zh", "账单价 20")):
        texts = [text for _, text in explain_rows(pool, overview, NOW, Words(language))]
        assert any(said in text for text in texts), texts

    ledger.said = lessons({})
    world.tick.prices.refresh()
    world.tick(NOW + timedelta(seconds=15))
    assert seen[-1].pools[BASE].first_flavour.price_per_gpu_hour == 2
    (pool,) = [each for each in world.state.overview().pools if each.policy.name == BASE]
    assert "spot: 2 USD per GPU hour, as configured" in "\n".join(explanation(answer(pool, overview, NOW)))


@pytest.mark.parametrize(("paid", "starts", "limits"), [("48", 2, {Limit.MIN}), ("240", 0, {Limit.MIN, Limit.BUDGET})])
def test_a_minimum_that_learned_prices_put_beyond_the_budget_is_told(
    paid: str, starts: int, limits: set[Limit]
) -> None:
    """Two replicas at the configured 2 an hour fit into 5; at the learned 10 not one does: the decision says why."""
    flavour = Flavour(hosts=(H1,), price_per_gpu_hour=Decimal(2))
    configured = tiny.policy(tiny.pool(BASE, 2, 4, flavours=(flavour,)), budget=Budget(per_hour=Decimal(5)))
    told = with_prices(configured, effective_prices(configured, lessons({H1: paid}), NOW))
    taken = plan(tiny.fleet(), told, Memory(started_at=tiny.LONG_AGO), tiny.NOON)
    decided = tiny.decision(taken, BASE)
    assert (len(taken.actions), set(decided.limits)) == (starts, limits)
    assert ("the budget allows no more" in decided.reason) == (Limit.BUDGET in limits)
