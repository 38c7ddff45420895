"""What moves a day from estimated to final, and what prices learn from bills."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from fakes.costs import DAY, MONTH, NEXT_MONTH, activity, charge, holding, total

from tidegate.controller.cost_ledger import stands_in
from tidegate.cost.calibration import age, calibrate, key_of, priced
from tidegate.cost.day_status import DayFacts, day_status, touches
from tidegate.cost.estimate import HostPrice, estimate
from tidegate.cost.reconcile import reconcile
from tidegate.model.allocation import CostPolicy, LineKind, Reconciled
from tidegate.model.bill import AsideSum, SnapshotSums, SnapshotVersion
from tidegate.model.charge import SnapshotKey
from tidegate.model.money import CostState

SUMS = SnapshotSums(
    SnapshotKey("focus", "acme", MONTH, NEXT_MONTH), 1, 0, (), (), AsideSum(), {}, "", effective_usable=True,
    first=DAY, last=DAY + timedelta(days=1), providers=(), sub_accounts=(), fingerprint=0,
)  # fmt: skip
OPEN = SnapshotVersion(
    7, 1, active=True, closed=False, closed_evidence="", imported_at=DAY, imported_by="ann", charges_kept=True,
    content="", files=(), sums=SUMS,
)  # fmt: skip
CLOSED = replace(OPEN, closed=True, closed_evidence="invoice I-1")
HELD = DayFacts({"gpu-1": Decimal(86_400)}, ("gpu-1",), Decimal(288), Decimal(288), over=True)


@pytest.mark.parametrize(
    ("versions", "facts", "state"),
    [
        ((), HELD, CostState.ESTIMATED),
        ((OPEN,), HELD, CostState.PARTIAL),
        ((CLOSED,), HELD, CostState.FINAL),
        ((CLOSED, replace(OPEN, id=8)), HELD, CostState.PARTIAL),
        ((CLOSED,), replace(HELD, over=False), CostState.PARTIAL),
        ((replace(CLOSED, sums=replace(SUMS, aside=AsideSum(2))),), HELD, CostState.PARTIAL),
        ((replace(CLOSED, sums=replace(SUMS, first=NEXT_MONTH, last=NEXT_MONTH)),), HELD, CostState.ESTIMATED),
    ],
)
def test_only_evidence_moves_a_day(versions: tuple[SnapshotVersion, ...], facts: DayFacts, state: CostState) -> None:
    found = day_status(DAY.date(), versions, facts)
    assert found.state is state
    assert found.versions == tuple(version.id for version in versions if touches(version, DAY.date()))


def test_what_is_missing_is_said() -> None:
    lacking = replace(HELD, billed=(), seen=Decimal(144))
    final = day_status(DAY.date(), [CLOSED], lacking)
    assert (final.coverage, final.observed, final.unbilled) == (0, Decimal("0.5"), ("gpu-1",))
    assert final.notes == ("1 hosts held GPUs and stand in no bill: they cost 0 in it",)
    assert day_status(DAY.date(), [OPEN], lacking).unbilled == ()
    odd = replace(OPEN, sums=replace(SUMS, effective_usable=False))
    assert "billed cost stands in" in day_status(DAY.date(), [odd], HELD).notes[0]


def learned(day: int, effective: str, listed: str | None = "48", hours: str = "24") -> Reconciled:
    price = None if listed is None else Decimal(listed)
    when = DAY.date() + timedelta(days=day)
    return Reconciled(when, "aws", "p5", "eu", "standard", "USD", "gpu-1", Decimal(hours), Decimal(effective), price)


def test_kappa_is_what_bills_came_to_over_what_prices_said() -> None:
    found = calibrate([learned(0, "36"), learned(1, "60"), learned(-40, "1000")])
    (kappa,) = found.kappas.values()
    assert (kappa.factor, kappa.days, kappa.gpu_hours) == (1, 2, 48)
    assert age(kappa, DAY.date() + timedelta(days=5)) == 4
    cheaper = calibrate([learned(0, "36")])
    price = priced("gpu-1", HostPrice(Decimal(2), "USD", "price"), cheaper)
    assert (price.per_gpu_hour, price.method) == (Decimal("1.5"), "price x kappa")
    assert priced("gpu-1", HostPrice(Decimal(2), "EUR", "price"), cheaper).per_gpu_hour == 2
    assert priced("gpu-9", HostPrice(Decimal(2), "USD", "price"), cheaper).per_gpu_hour == 2


@pytest.mark.parametrize(
    "row", [learned(0, "36", hours="2"), learned(0, "36", None), learned(0, "-1"), learned(0, "5", "0")]
)
def test_too_little_teaches_nothing(row: Reconciled) -> None:
    assert calibrate([row]).kappas == {}
    assert calibrate([row]).hosts == {"gpu-1": key_of(row)}


def test_an_estimate_never_stands_beside_a_bill_of_the_same_host_and_day() -> None:
    on = activity([holding("a", 8, 24), holding("b", 8, 24, host="gpu-2")], gpus={"gpu-1": 8, "gpu-2": 8})
    made = reconcile([(charge("100", hours=24), False)], on, CostPolicy(), {}, estimating=True)
    estimated = [line for line in made.lines if line.place.estimated]
    assert {line.place.host for line in estimated} == {"gpu-2"}
    assert total(estimated) == 8 * 24 * 2
    assert total(made.lines) == 100 + 8 * 24 * 2
    (row,) = made.reconciled
    assert (row.effective, row.listed, row.gpu_hours) == (100, 384, 192)
    closed = reconcile([(charge("100", hours=24), False)], on, CostPolicy(), {}, estimating=False)
    assert total(closed.lines) == 100


def test_an_unknown_price_stays_unknown() -> None:
    on = activity([replace(holding("a", 2), price_per_gpu_hour=None)], 1)
    made = estimate(on, {})
    assert (made.lines, made.unpriced) == ((), {"a": 2})
    assert total(estimate(on, {"gpu-1": HostPrice(Decimal(3), "USD", "price x kappa")}).lines) == 6


def test_estimates_are_classed_like_bills() -> None:
    on = activity([holding("a", 8, 2)], 2, dark=[("gpu-1", 1)])
    kinds = {line.place.kind: line.effective for line in estimate(on, {}).lines}
    assert kinds == {LineKind.BUSY: 16, LineKind.UNOBSERVED: 16}


@pytest.mark.parametrize(
    ("other", "alone"),
    [
        (SnapshotKey("azure-amortized", "acme", MONTH, NEXT_MONTH), False),
        (SnapshotKey("azure-amortized", "/billingAccounts/ACME", MONTH, NEXT_MONTH), False),
        (SnapshotKey("azure-amortized", "another", MONTH, NEXT_MONTH), True),
        (SnapshotKey("azure-amortized", "acme", NEXT_MONTH, NEXT_MONTH + timedelta(days=31)), True),
        (SnapshotKey("azure-actual", "acme", MONTH, NEXT_MONTH, "eu"), True),
    ],
)
def test_the_billed_ledger_stands_in_where_no_other_export_fills_the_effective_one(
    other: SnapshotKey, alone: bool
) -> None:
    """Another piece of the same export is other money: it fills nothing for this one."""
    actual = replace(SUMS, key=SnapshotKey("azure-actual", "acme", MONTH, NEXT_MONTH), effective_usable=False)
    mine, theirs = replace(OPEN, sums=actual), replace(OPEN, id=8, sums=replace(SUMS, key=other))
    assert stands_in(mine, [mine, theirs]) is alone
    assert not stands_in(theirs, [mine, theirs])
