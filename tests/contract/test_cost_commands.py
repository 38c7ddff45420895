"""Costs from a bill through the real store, the reconcile job and /v1 to the command line, and what moves a day."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from fakes.bill_book import Book
from fakes.bills import FOCUS
from fakes.clock import ManualClock
from fakes.controller_world import H1, World, fleet_policy, record
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.config.settings import Settings
from tidegate.controller.cost_activity import Telemetry
from tidegate.controller.cost_ledger import CostLedger
from tidegate.controller.costs import Costs
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.model.money import CostState
from tidegate.runtime.serve import HttpServer, tcp
from tidegate.store.bills import StoredBills
from tidegate.store.costs import StoredCosts
from tidegate.store.database import Database
from tidegate.store.fence import NoFence

DAY = datetime(2026, 11, 25, tzinfo=UTC)
MONTH = "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z"
AFTER = DAY + timedelta(days=2)


def row(  # noqa: PLR0917 - a row of a bill
    cost: str, resource: str = "gpu-1", category: str = "Usage", service: str = "Compute", invoice: str = "",
    day: datetime = DAY, month: str = MONTH, kind: str = "",
) -> str:  # fmt: skip
    """A FOCUS row of a whole day."""
    span = f"{day:%Y-%m-%dT00:00:00Z},{day + timedelta(days=1):%Y-%m-%dT00:00:00Z}"
    return f"acme,USD,{month},{span},{category},{kind},{cost},{cost},{resource},{service},{invoice},AWS,"


def bill(*rows: str) -> str:
    return "\n".join([FOCUS, *rows]) + "\n"


@dataclass
class Desk:
    """A controller with a replica that held a GPU all day, its bills, and a person at the command line."""

    world: World
    costs: Costs
    book: Book
    url: str

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["cost", *words, "--controller", self.url], catch_exceptions=True)

    def report(self, *words: str) -> dict[str, Any]:
        result = self.run("--from", "2026-11-25", "--to", "2026-11-26", "--json", *words)
        lines = result.stdout.splitlines()
        found: dict[str, Any] = json.loads("\n".join(lines[lines.index("{") :]))
        return found

    def total(self, *words: str) -> Decimal:
        (found,) = self.report(*words)["totals"]
        return Decimal(found["amount"])


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Iterator[Desk]:
    world = World(ManualClock(AFTER), Settings(Path("tidegate.toml"), fleet_policy()))
    held = record("base-1", H1)
    world.store.replicas.records["base-1"] = replace(held, requested_at=DAY, since=DAY)  # type: ignore[index]
    telemetry = Telemetry(world.store.usage, world.store.replicas, world.store.histories)
    book = Book(StoredBills(database), tmp_path, world.clock)
    ledger = CostLedger(world.clock, world.current, telemetry, book.store, StoredCosts(database, NoFence()))
    costs = Costs(ledger)
    api = replace(world.api, cost_book=costs)
    server = HttpServer(build_app(api, ControllerPages(world.clock, lambda: (True, ""))), tcp("127.0.0.1", 0), "t")
    server.start()
    yield Desk(world, costs, book, f"http://127.0.0.1:{server.port}")
    server.stop()


def test_from_estimated_to_partial_to_final_and_back(desk: Desk) -> None:
    before = desk.report()
    assert (before["state"], before["days"]) == ("estimated", [])
    assert desk.total() == Decimal("2.10") * 24
    assert "no bill speaks of these days yet" in desk.run("--from", "2026-11-25", "--to", "2026-11-26").stdout

    desk.book.text(bill(row("60.01"), row("7", category="Tax", resource="")))
    assert desk.costs.ledger.reconcile() == 1
    assert desk.costs.ledger.reconcile() == 0
    partial = desk.report()
    assert partial["state"] == "partial"
    assert desk.total() == Decimal("67.01")
    assert Decimal(partial["totals"][0]["estimated"]) == 0

    whole = bill(
        row("60.01", invoice="I-1"), row("7", category="Tax", resource="", invoice="I-1"),
        row("-2.5", category="Credit", resource="", invoice="I-1", service="Other"),
        row("11", resource="i-unknown", invoice="I-1"),
    )  # fmt: skip
    desk.book.text(whole, "whole.csv")
    assert desk.costs.ledger.reconcile() == 1
    final = desk.report("--by", "kind")
    assert final["state"] == "final"
    kinds = {each["key"]["kind"]: Decimal(each["amount"]) for each in final["rows"] if each["currency"]}
    assert (kinds["tax"], kinds["credit"], kinds["unattributed_host"]) == (7, Decimal("-2.5"), 11)
    assert sum(kinds.values()) == desk.total() == Decimal("75.51")

    (version,) = desk.book.active
    desk.book.store.reopen(version.key, "the provider restated it", "ann", AFTER)
    desk.costs.ledger.reconcile()
    assert desk.report()["state"] == "partial"


def test_a_day_that_is_not_kept_has_the_state_that_its_bill_gives_it(desk: Desk) -> None:
    """Imported a moment ago, or about a day before all that are kept."""
    desk.book.text(bill(row("60.01", invoice="I-1")))
    found = desk.report()
    assert (found["state"], found["days"][0]["versions"]) == ("final", [1])
    assert (found["totals"][0]["state"], desk.total()) == ("final", Decimal("60.01"))
    old = bill(row("5", invoice="I-0")).replace("2026-", "2024-")
    desk.book.text(old, "old.csv")
    desk.costs.ledger.reconcile()
    shown = desk.run("--from", "2024-11-25", "--to", "2024-11-26").stdout
    assert "final" in shown
    assert "5.00 USD" in shown
    assert "estimated" not in shown


def test_a_late_correction_is_seen_on_both_axes_and_estimates_learn(desk: Desk) -> None:
    desk.book.text(bill(row("50.40", invoice="I-1")))
    december = "2026-12-01T00:00:00Z,2027-01-01T00:00:00Z"
    later = bill(row("-0.40", month=december, kind="Correction", invoice="I-2"))
    desk.costs.ledger.reconcile()
    desk.book.text(later, "later.csv")
    desk.costs.ledger.reconcile()
    assert desk.total() == Decimal("50.00")
    by_invoice = json_of(desk.run("--month", "2026-11", "--billing", "--json"))
    assert Decimal(by_invoice["totals"][0]["amount"]) == Decimal("50.40")
    december_only = json_of(desk.run("--month", "2026-12", "--billing", "--json"))
    assert Decimal(december_only["totals"][0]["amount"]) == Decimal("-0.40")
    learned = desk.costs.ledger.calibration()
    next_day = json_of(desk.run("--from", "2026-11-26", "--to", "2026-11-27", "--json"))
    assert next_day["state"] == "estimated"
    kappa = next(iter(learned.kappas.values()))
    assert Decimal(next_day["totals"][0]["amount"]) == pytest.approx(
        Decimal("50.40") * kappa.factor, rel=Decimal("1e-9")
    )
    assert any("kappa" in note for note in next_day["notes"])


def test_the_order_of_imports_and_a_second_run_change_nothing(desk: Desk, database: Database) -> None:
    november, other = bill(row("10"), row("3", resource="")), bill(row("5").replace("acme", "beta"))
    desk.book.text(november, "a.csv")
    desk.book.text(other, "b.csv")
    desk.costs.ledger.reconcile()
    days = desk.costs.ledger.days
    first = days.lines(DAY.date(), AFTER.date())
    days.drop([DAY.date()])
    assert not days.lines(DAY.date(), AFTER.date())
    desk.costs.ledger.reconcile()
    assert sorted(map(str, days.lines(DAY.date(), AFTER.date()))) == sorted(map(str, first))


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_store_holds_the_same_whatever_the_order_of_imports(
    desk: Desk, database: Database, order: tuple[int, ...]
) -> None:
    """Two accounts and a correction of the next month, shared out after each import: the lines are those of one go."""
    december = "2026-12-01T00:00:00Z,2027-01-01T00:00:00Z"
    texts = [
        bill(row("10.01", invoice="I-1"), row("3", resource=""), row("0.07", category="Tax", resource="")),
        bill(row("5").replace("acme", "beta"), row("100", resource="i-stranger").replace("acme", "beta")),
        bill(row("-0.40", month=december, kind="Correction", invoice="I-2")),
    ]
    for number, each in enumerate(texts):
        desk.book.text(each, f"{number}.csv")
    desk.costs.ledger.reconcile()
    days = desk.costs.ledger.days
    wanted = sorted(map(str, days.lines(DAY.date(), AFTER.date())))
    with database.begin() as connection:
        connection.exec_driver_sql("TRUNCATE charge, bill_snapshot, bill_version, bill_quarantine, bill_event CASCADE")
    desk.costs.ledger.reconcile()
    assert not days.lines(DAY.date(), AFTER.date())
    for number in order:
        desk.book.text(texts[number], f"again-{number}.csv")
        desk.costs.ledger.reconcile()
    assert sorted(map(str, days.lines(DAY.date(), AFTER.date()))) == wanted
    assert desk.total() == Decimal("117.68")


def test_a_report_by_billing_says_to_the_cent_what_is_not_in_it(desk: Desk) -> None:
    later = AFTER + timedelta(days=3)
    desk.book.text(bill(row("10"), row("2.05", day=later, resource="")))
    desk.costs.ledger.reconcile()
    notes = json_of(desk.run("--month", "2026-11", "--billing", "--json"))["notes"]
    assert [note.partition(" of these")[0] for note in notes if "not in it" in note] == [
        "2.05 USD (billed)",
        "2.05 USD (effective)",
    ]
    desk.world.clock.forward(5 * 86_400)
    desk.costs.ledger.reconcile()
    found = json_of(desk.run("--month", "2026-11", "--billing", "--json"))
    assert not [note for note in found["notes"] if "not in it" in note]
    assert Decimal(found["totals"][0]["amount"]) == Decimal("12.05")


def test_final_figures_keep_their_names(desk: Desk) -> None:
    """A pool that is renamed, a host that is gone: what a closed day cost stands as it was."""
    desk.book.text(bill(row("60", invoice="I-1")))
    desk.costs.ledger.reconcile()
    before = desk.report("--by", "pool,host,service")["rows"]
    desk.world.store.replicas.records.clear()
    desk.world.clock.forward(10 * 86_400)
    desk.world.settings = replace(desk.world.settings, fleet=replace(fleet_policy(), pools={}))
    desk.world.current.reload(desk.world.clock.now())
    assert desk.costs.ledger.reconcile() == 0
    assert desk.report("--by", "pool,host,service")["rows"] == before
    assert {each["key"]["pool"] for each in before if each["currency"]} >= {"base"}


def test_a_host_in_no_bill_of_a_closed_period_costs_nothing_and_is_named(desk: Desk) -> None:
    """Never an estimate inside a final total."""
    desk.book.text(bill(row("4", resource="i-x", invoice="I-1")))
    desk.costs.ledger.reconcile()
    found = desk.report()
    assert found["state"] == "final"
    assert desk.total() == 4
    assert found["days"][0]["unbilled"] == [H1]


def test_focus_rows_add_up_and_their_ratios_are_one(desk: Desk) -> None:
    desk.book.text(bill(row("100"), row("9", resource="", category="Tax")))
    desk.costs.ledger.reconcile()
    printed = desk.run("--from", "2026-11-25", "--to", "2026-11-26", "--focus").stdout
    lines = printed.splitlines()
    rows = list(csv.DictReader(lines[next(n for n, line in enumerate(lines) if line.startswith("AllocatedMethod")) :]))
    assert sum(Decimal(each["EffectiveCost"]) for each in rows) == 109
    ratios: dict[str, Decimal] = {}
    for each in rows:
        (element,) = json.loads(each["AllocatedMethodDetails"])["Elements"]
        key = each["ResourceId"] + each["ChargeCategory"]
        ratios[key] = ratios.get(key, Decimal(0)) + Decimal(element["AllocatedRatio"])
    assert set(ratios.values()) == {Decimal(1)}


def test_any_grouping_adds_up_and_csv_says_the_same(desk: Desk) -> None:
    desk.book.text(bill(row("100"), row("0.07", resource=""), row("-1", category="Credit", resource="")))
    desk.costs.ledger.reconcile()
    for by in ("pool", "model,kind", "host", "day,service", "category,charge", "week", "month,side", "class,tenant"):
        rows = desk.report("--by", by)["rows"]
        assert sum(Decimal(each["amount"] or 0) for each in rows) == Decimal("99.07"), by
    printed = desk.run("--from", "2026-11-25", "--to", "2026-11-26", "--csv", "--by", "kind").stdout.splitlines()
    table = list(csv.DictReader(printed[next(n for n, line in enumerate(printed) if line.startswith("kind,")) :]))
    assert sum(Decimal(each["amount"]) for each in table if each["amount"]) == Decimal("99.07")


def test_a_fee_at_the_very_end_of_a_bill_s_time_is_of_the_day_that_begins_there(desk: Desk) -> None:
    """It has no length: the bill's usage ends at that midnight, the fee stands at it."""
    fee = row("4", category="Purchase", resource="").replace("2026-11-25T00:00:00Z,", "2026-11-26T00:00:00Z,")
    assert "2026-11-26T00:00:00Z,2026-11-26T00:00:00Z" in fee
    desk.book.text(bill(row("60.01"), fee))
    desk.costs.ledger.reconcile()
    shown = desk.run("--from", "2026-11-26", "--to", "2026-11-27", "--by", "category").stdout
    (bought,) = [line for line in shown.splitlines() if line.startswith("purchase")]
    assert "4.00 USD" in bought
    assert not any("is not in it" in line for line in desk.run("--month", "2026-11", "--billing").stdout.splitlines())


def test_each_basis_shows_what_its_price_is_taken_over(desk: Desk) -> None:
    desk.book.text(bill(row("60.01")))
    desk.costs.ledger.reconcile()
    span = ("--from", "2026-11-25", "--to", "2026-11-26")
    for basis, head in (("allocation", ""), ("busy", "busy cost"), ("goodput", "M good")):
        shown = desk.run(*span, "--basis", basis).stdout.splitlines()
        (heads,) = [line for line in shown if "per M" in line]
        assert (head in heads, "60.01 USD" in "".join(shown)) == (True, True)
        assert ("busy cost" in heads) == (basis == "busy")
    whole = desk.run(*span, "--by", "").stdout
    assert "total" in whole
    assert "60.01 USD" in whole


def test_two_windows_and_a_hosted_price_stand_beside_the_table(desk: Desk) -> None:
    desk.book.text(bill(row("25.20")))
    desk.costs.ledger.reconcile()
    said = desk.run("--from", "2026-11-25", "--to", "2026-11-26", "--before", "2026-11-24").stdout
    assert "base" in said
    assert "cost saved for the same tokens (1 - c2/c1): unknown" in said
    pytest.importorskip("genai_prices")
    assert desk.run("--month", "2026-11", "--against", "openai/gpt-4o").exit_code == 0
    assert "no price of" in str(desk.run("--against", "nobody/nothing").exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--week", "2026-W99"), "is no span of time"),
        (("--by", "colour"), "choose from"),
        (("--week", "2026-W48", "--month", "2026-11"), "give one span"),
        (("--json", "--csv"), "choose one"),
        (("--from", "2026-11-26", "--to", "2026-11-25"), "must be before"),
    ],
)
def test_what_cannot_be_asked_is_said(desk: Desk, words: tuple[str, ...], said: str) -> None:
    result = desk.run(*words)
    assert result.exit_code == 1
    assert said in str(result.exception)


def test_unknown_questions_are_refused(desk: Desk) -> None:
    assert httpx.get(f"{desk.url}/v1/cost/report?colour=red", trust_env=False).status_code == 422
    assert CostState.FINAL.value == "final"


def json_of(result: Result) -> dict[str, Any]:
    lines = result.stdout.splitlines()
    found: dict[str, Any] = json.loads("\n".join(lines[lines.index("{") :]))
    return found
