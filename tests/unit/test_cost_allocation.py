"""Charges to lines: the sum never changes, and every line is where the day says that it belongs."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from fakes.costs import DAY, HOUR, MONTH, POOLS, activity, by_kind, charge, holding, time_by_kind, total
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.cost.allocate import allocate
from tidegate.cost.idle import distribute
from tidegate.model.activity import Activity, hour_of
from tidegate.model.allocation import Apart, CostPolicy, IdlePolicy, Line, LineKind
from tidegate.model.charge import Charge, ChargeCategory, CommitmentStatus, Ledger, ServiceClass

K = LineKind
POLICY = CostPolicy()
FIRST = hour_of(DAY)


def lines_of(
    *charges: Charge, on: Activity | None = None, policy: CostPolicy = POLICY, stand_in: bool = False
) -> tuple[Line, ...]:
    return allocate([(each, stand_in) for each in charges], on or activity([holding("a", 8, 24)]), policy)


def test_the_twenty_dollar_host() -> None:
    """A holds four GPUs all hour, B two for half an hour, the rest is empty."""
    on = activity([holding("a", 4), holding("b", 2, 0.5)], 1)
    lines = lines_of(charge("20"), on=on)
    assert by_kind(lines) == {
        (K.BUSY, "a"): Decimal("10"),
        (K.BUSY, "b"): Decimal("2.5"),
        (K.EMPTY, ""): Decimal("7.5"),
    }
    assert sum(time_by_kind(lines).values()) == 8 * 3600


def test_busy_and_resident_idle_are_told_apart_by_measured_activity() -> None:
    on = replace(
        activity([holding("a", 8)], 1),
        busy={("gpu-1", "a", FIRST): [0.25] * 6 + [None] * 6},
        worked={("gpu-1", "a", FIRST): 0},
    )
    assert by_kind(lines_of(charge("20"), on=on)) == {(K.BUSY, "a"): Decimal("2.5"), (K.RESIDENT, "a"): Decimal("17.5")}


def test_what_nobody_saw_is_unobserved_and_costs_what_it_cost() -> None:
    """An outage of the agent makes nothing cheaper."""
    on = activity([holding("a", 4, 2)], 2, dark=[("gpu-1", 1)])
    found = by_kind(lines_of(charge("40", hours=2), on=on))
    assert found == {
        (K.BUSY, "a"): Decimal(10), (K.EMPTY, ""): Decimal(10),
        (K.UNOBSERVED, "a"): Decimal(10), (K.UNOBSERVED, ""): Decimal(10),
    }  # fmt: skip


def test_a_daily_row_is_carried_by_the_hours_that_the_host_lived() -> None:
    on = activity([holding("a", 8, 7)], 24, dark=[("gpu-1", hour) for hour in range(7, 24)])
    row = charge("7", hours=24, consumed_quantity=Decimal(7), consumed_unit="Hours")
    assert by_kind(lines_of(row, on=on)) == {(K.BUSY, "a"): Decimal(7)}
    longer = replace(row, consumed_quantity=Decimal(24))
    assert by_kind(lines_of(longer, on=on))[K.BUSY, "a"] < Decimal("2.1")


@pytest.mark.parametrize(
    "resource",
    [
        "GPU-1",
        "arn:aws:ec2:us-east-1:1234:instance/gpu-1",
        "//compute.googleapis.com/projects/p/zones/z/instances/gpu-1",
        "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines/GPU-1",
        "projects/p/instances/gpu-1",
    ],
)
def test_hosts_are_found_whatever_the_case_and_the_prefix(resource: str) -> None:
    assert by_kind(lines_of(charge(resource_id=resource))) == {(K.BUSY, "a"): Decimal(20)}


def test_hosts_are_found_by_name_tag_and_map() -> None:
    named = charge(resource_id="i-0abc", resource_name="gpu-1")
    tagged = charge(resource_id="i-0abc", tags={"user:Name": "gpu-1"})
    assert by_kind(lines_of(named)) == by_kind(lines_of(tagged)) == {(K.BUSY, "a"): Decimal(20)}
    mapped = CostPolicy(hosts={"i-0abc": "gpu-1"})
    line = next(each for each in lines_of(charge(resource_id="I-0ABC"), policy=mapped) if each.place.currency)
    assert (line.place.host, line.place.method) == ("gpu-1", "map")


def test_a_charge_is_never_two_hosts() -> None:
    """Two short names that are the same tell nothing; two tags that name different hosts neither."""
    on = activity([], gpus={"n1.paris": 8, "n1.rome": 8, "gpu-1": 8})
    assert set(by_kind(lines_of(charge(resource_id="n1"), on=on))) == {(K.UNATTRIBUTED_HOST, "")}
    both = charge(resource_id="x", tags={"name": "gpu-1", "host": "n1.rome"})
    assert set(by_kind(lines_of(both, on=on))) == {(K.UNATTRIBUTED_HOST, "")}


def test_everything_that_is_nobodys_has_a_line_of_its_own() -> None:
    rows = [
        charge("1", resource_id="i-unknown"),
        charge("2", resource_id="", service=ServiceClass.OTHER, sku="marketplace"),
        charge("3", category=ChargeCategory.TAX),
        charge("-4", resource_id="", category=ChargeCategory.CREDIT, service=ServiceClass.OTHER),
        charge("5", resource_id="ri-1", commitment_id="ri-1", commitment_status=CommitmentStatus.UNUSED),
        charge("0.002", resource_id="", category=ChargeCategory.ADJUSTMENT, description="Rounding"),
    ]
    lines = lines_of(*rows)
    assert {kind: value for (kind, _), value in by_kind(lines).items()} == {
        K.UNATTRIBUTED_HOST: 1, K.UNATTRIBUTED_CHARGE: 2, K.TAX: 3, K.CREDIT: -4, K.COMMITMENT: 5,
        K.ROUNDING: Decimal("0.002"),
    }  # fmt: skip
    assert {line.place.side for line in lines if line.place.kind is K.COMMITMENT} == {"base"}
    assert {line.place.resource for line in lines if line.place.kind is K.UNATTRIBUTED_HOST} == {"i-unknown"}


def test_a_credit_that_names_a_host_is_the_hosts() -> None:
    found = by_kind(lines_of(charge("20"), charge("-5", category=ChargeCategory.CREDIT)))
    assert found == {(K.BUSY, "a"): Decimal(15)}


def test_network_goes_by_bytes_then_tokens_then_gpu_time() -> None:
    net = charge("12", resource_id="", service=ServiceClass.NETWORK)
    held = [holding("a", 6), holding("b", 2)]
    plain = activity(held, 1, gpus={"gpu-1": 8})
    assert by_kind(lines_of(net, on=plain)) == {(K.SHARED, "a"): Decimal(9), (K.SHARED, "b"): Decimal(3)}
    spoken = replace(plain, output={("gpu-1", "a", FIRST): 100.0, ("gpu-1", "b", FIRST): 200.0})
    lines = lines_of(net, on=spoken)
    assert by_kind(lines) == {(K.SHARED, "a"): Decimal(4), (K.SHARED, "b"): Decimal(8)}
    assert {line.place.method for line in lines if line.place.currency} == {"output_tokens"}
    two = activity([holding("a", 8), holding("b", 8, host="gpu-2")], 1, gpus={"gpu-1": 8, "gpu-2": 8})
    sent = replace(two, sent={("gpu-1", FIRST): 1e9, ("gpu-2", FIRST): 2e9})
    assert by_kind(lines_of(net, on=sent)) == {(K.SHARED, "a"): Decimal(4), (K.SHARED, "b"): Decimal(8)}
    apart = by_kind(lines_of(net, on=sent, policy=CostPolicy(network=Apart.SEPARATE)))
    assert apart == {(K.UNATTRIBUTED_CHARGE, ""): Decimal(12)}


def test_storage_goes_by_size_and_time() -> None:
    row = charge("9", resource_id="bucket", service=ServiceClass.STORAGE)
    two = activity([holding("a", 8), holding("b", 8, host="gpu-2")], 1, gpus={"gpu-1": 8, "gpu-2": 8})
    stored = replace(two, stored={("gpu-1", FIRST): 5e9, ("gpu-2", FIRST): 1e10})
    assert by_kind(lines_of(row, on=stored)) == {(K.SHARED, "a"): Decimal(3), (K.SHARED, "b"): Decimal(6)}


def test_network_of_an_unknown_machine_is_that_machines() -> None:
    rows = [charge("1", resource_id="i-x"), charge("2", resource_id="i-x", service=ServiceClass.NETWORK)]
    for order in (rows, rows[::-1]):
        assert by_kind(lines_of(*order)) == {(K.UNATTRIBUTED_HOST, ""): Decimal(3)}


def test_what_is_held_beyond_the_host_is_said_and_costs_no_more_than_the_host() -> None:
    lines = lines_of(charge("20"), on=activity([holding("a", 8), holding("b", 8)], 1))
    assert by_kind(lines) == {(K.BUSY, "a"): Decimal(10), (K.BUSY, "b"): Decimal(10)}
    time = time_by_kind(lines)
    assert time[K.OVER_ALLOCATION, ""] == -8 * 3600
    assert sum(time.values()) == 8 * 3600


def test_a_host_without_gpus_costs_no_model_anything() -> None:
    """kubecost#1389: GPU cost with no GPU."""
    assert set(by_kind(lines_of(charge(resource_id="door"), on=activity([], gpus={"door": 0})))) == {(K.UNOBSERVED, "")}


def test_currencies_and_ledgers_are_never_mixed() -> None:
    rows = [charge("20"), charge("7", currency="EUR", effective=None), charge(None, effective=Decimal(3))]
    lines = lines_of(*rows)
    assert total(lines) == 23
    assert total(lines, Ledger.BILLED) == 20
    assert total(lines, Ledger.BILLED, "EUR") == 7
    assert all(line.effective is None for line in lines if line.place.currency == "EUR")
    assert total(lines_of(charge("20", effective=Decimal(0)), stand_in=True)) == 20


def test_a_correction_of_a_closed_month_is_seen_on_both_axes() -> None:
    """FOCUS' closed period, scenario 1: May by charge period becomes 1,200 and 300, June's invoice changes by 0."""
    may, june, july = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))
    first = charge("1500", may, 744, resource_id="R-111", billing_start=may, billing_end=june)
    later = {"billing_start": june, "billing_end": july, "correction": True}
    less = replace(first, billed=Decimal(-300), effective=Decimal(-300), **later)
    other = replace(first, billed=Decimal(300), effective=Decimal(300), resource_id="R-222", **later)
    lines = lines_of(first, less, other, on=Activity(may, june))
    by_resource = {r: total(x for x in lines if x.place.resource == r) for r in ("R-111", "R-222")}
    assert by_resource == {"R-111": 1200, "R-222": 300}
    by_invoice = {m: total(x for x in lines if x.place.billing and x.place.billing.month == m) for m in (5, 6)}
    assert by_invoice == {5: 1500, 6: 0}


@pytest.mark.parametrize("policy", IdlePolicy)
def test_every_idle_policy_conserves(policy: IdlePolicy) -> None:
    on = activity([holding("a", 4), holding("b", 1, 0.5)], 2, gpus={"gpu-1": 8, "gpu-2": 8})
    unused = charge("7", resource_id="ri", commitment_id="ri", commitment_status=CommitmentStatus.UNUSED)
    lines = lines_of(charge("20"), charge("10.01", resource_id="gpu-2"), unused, on=on)
    given = distribute(lines, policy, POOLS)
    assert total(given) == total(lines) == Decimal("37.01")
    assert total(given, Ledger.BILLED) == Decimal("37.01")
    found = by_kind(given)
    if policy is IdlePolicy.TO_RESIDENT:
        assert (K.EMPTY, "") in found  # nobody was resident on gpu-2
        assert found[K.SHARED, "a"] > 6 > found[K.SHARED, "b"] > 0
    if policy is IdlePolicy.TO_POOL_OWNER:
        assert found[K.SHARED, "b"] == Decimal("10.01")


def test_idle_that_nobody_can_pay_stays() -> None:
    lines = lines_of(charge("20"), on=activity([], 1))
    for policy in IdlePolicy:
        kept = distribute(lines, policy, {})
        assert by_kind(kept) == {(K.EMPTY, ""): Decimal(20)}


AMOUNTS = st.decimals(min_value=-1000, max_value=1000, places=12, allow_nan=False)
CHARGES = st.builds(
    charge,
    AMOUNTS.map(str),
    st.integers(-2000, 3000).map(lambda m: DAY + timedelta(minutes=m)),
    st.sampled_from([0, 0.3, 1, 24, 200]),
    resource_id=st.sampled_from(["gpu-1", "arn:x:instance/GPU-2", "i-x", ""]),
    service=st.sampled_from(ServiceClass),
    category=st.sampled_from(ChargeCategory),
    currency=st.sampled_from(["USD", "EUR"]),
    commitment_status=st.sampled_from(CommitmentStatus),
    effective=st.none() | AMOUNTS,
)
HOLDINGS = st.builds(
    holding,
    st.sampled_from(["a", "b"]),
    st.integers(1, 8),
    st.floats(0.01, 30),
    st.integers(-300, 1400).map(lambda m: DAY + timedelta(minutes=m)),
    st.sampled_from(["gpu-1", "gpu-2"]),
)
ACTIVITIES = st.builds(
    activity,
    st.lists(HOLDINGS, max_size=5),
    gpus=st.just({"gpu-1": 8, "gpu-2": 4}),
    dark=st.lists(st.tuples(st.sampled_from(["gpu-1", "gpu-2"]), st.integers(0, 23)), max_size=6),
    busy=st.booleans(),
)


def cut(charges: list[Charge], since: datetime, until: datetime) -> tuple[Decimal, Decimal]:
    """What the rows say of the span, on another way: whole rows, and no others, lie in it."""
    inside = [each for each in charges if since <= each.start and each.end <= until]
    return (
        sum((each.billed or Decimal(0) for each in inside), Decimal(0)),
        sum((each.effective or Decimal(0) for each in inside), Decimal(0)),
    )


@settings(max_examples=30)
@given(st.lists(CHARGES, max_size=12), ACTIVITIES, st.randoms(use_true_random=False))
def test_the_sum_of_all_lines_is_the_sum_of_the_rows(charges: list[Charge], on: Activity, rnd: random.Random) -> None:
    """Per currency and ledger, whatever was seen; in any order; the same when it is asked again."""
    wide = replace(on, since=DAY - timedelta(days=2), until=DAY + timedelta(days=11))
    lines = lines_of(*charges, on=wide)
    for currency in ("USD", "EUR"):
        mine = [each for each in charges if each.currency == currency]
        billed, effective = cut(mine, wide.since, wide.until)
        assert total(lines, Ledger.BILLED, currency) == billed
        assert total(lines, Ledger.EFFECTIVE, currency) == effective
    rnd.shuffle(charges)
    assert lines_of(*charges, on=wide) == lines


@settings(max_examples=15)
@given(st.lists(CHARGES, max_size=8), ACTIVITIES)
def test_hours_add_up_to_the_day(charges: list[Charge], on: Activity) -> None:
    whole = lines_of(*charges, on=on)
    parts = [lines_of(*charges, on=replace(on, since=DAY + h * HOUR, until=DAY + (h + 1) * HOUR)) for h in range(24)]
    for ledger in Ledger:
        assert total((x for part in parts for x in part), ledger) == total(whole, ledger)


@settings(max_examples=40)
@given(st.lists(CHARGES, max_size=8), ACTIVITIES, ACTIVITIES)
def test_late_telemetry_moves_cost_and_never_the_total(
    charges: list[Charge], before: Activity, after: Activity
) -> None:
    for ledger in Ledger:
        assert total(lines_of(*charges, on=before), ledger) == total(lines_of(*charges, on=after), ledger)


@given(ACTIVITIES)
def test_models_never_cost_more_than_their_host(on: Activity) -> None:
    found = by_kind(lines_of(charge("24", hours=24), on=on))
    assert sum(value for (_, pool), value in found.items() if pool) <= 24
    assert all(value >= 0 for value in found.values())


def test_local_months_are_as_long_as_they_are() -> None:
    """A month of an hour a row: US Pacific March 2026 has 743 hours, November 721; each row counts once."""
    from zoneinfo import ZoneInfo

    for month, hours in ((3, 743), (11, 721)):
        zone = ZoneInfo("America/Los_Angeles")
        start = datetime(2026, month, 1, tzinfo=zone).astimezone(UTC)
        end = datetime(2026, month + 1, 1, tzinfo=zone).astimezone(UTC)
        rows = [charge("0.1", start + n * HOUR, resource_id="x") for n in range(int((end - start) / HOUR))]
        assert len(rows) == hours
        span = Activity(start - timedelta(days=1), end + timedelta(days=1))
        assert total(lines_of(*rows, on=span)) == Decimal("0.1") * hours
    assert (
        datetime(2026, 3, 1, tzinfo=ZoneInfo("Asia/Shanghai")).astimezone(UTC).isoformat()
        == "2026-02-28T16:00:00+00:00"
    )


def test_a_month_in_one_amount_costs_by_its_own_hours() -> None:
    """672 or 744 hours: no price an hour is made of it."""
    for month, hours in ((2, 672), (3, 744)):
        start = datetime(2026, month, 1, tzinfo=UTC)
        row = charge("1000", start, hours)
        days = [
            lines_of(row, on=Activity(start + timedelta(days=n), start + timedelta(days=n + 1)))
            for n in range(hours // 24)
        ]
        assert sum((total(day) for day in days), Decimal(0)) == 1000


def test_unused_commitments_appear_once() -> None:
    used = charge("0", effective=Decimal(6), commitment_id="ri", commitment_status=CommitmentStatus.USED)
    unused = charge(
        "0", effective=Decimal(4), commitment_id="ri", commitment_status=CommitmentStatus.UNUSED, resource_id="ri"
    )
    bought = charge("10", effective=Decimal(0), commitment_id="ri", category=ChargeCategory.PURCHASE, resource_id="ri",
                    start=MONTH, hours=0)  # fmt: skip
    on = replace(activity([holding("a", 8, 24)]), since=MONTH)
    lines = lines_of(used, unused, bought, on=on)
    assert total(lines) == total(lines, Ledger.BILLED) == 10
    assert by_kind(lines)[K.COMMITMENT, ""] == 4
