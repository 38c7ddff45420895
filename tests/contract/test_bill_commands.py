"""Bills from the command line through /v1 into a real database, and what a hostile client gets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result
from fakes.bill_book import Book
from fakes.bills import focus, focus_row
from fakes.clock import ManualClock
from fakes.controller_world import World, fleet_policy
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.config.settings import Settings
from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.link.bill_routes import BillDoor
from tidegate.link.uploads import Uploads
from tidegate.runtime.serve import HttpServer, tcp
from tidegate.runtime.tokens import token_hash
from tidegate.store.bills import StoredBills
from tidegate.store.database import Database


@dataclass
class Desk:
    """A controller that serves, and an operator at his command line."""

    url: str
    folder: Path
    book: Book
    uploads: Uploads

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--controller", self.url], catch_exceptions=True)

    def command(self, *words: str) -> Result:
        return self.run(*words, "--token-file", str(self.folder / "token"))

    def bill(self, text: str, name: str = "bill.csv") -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def put(self, path: str, body: bytes, token: str = "operators") -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.put(f"{self.url}{path}", content=body, headers=headers, trust_env=False)

    def post(self, path: str, body: object, token: str = "operators") -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(f"{self.url}{path}", json=body, headers=headers, trust_env=False)


@pytest.fixture
def desk(database: Database, now: datetime, tmp_path: Path) -> Iterator[Desk]:
    world = World(ManualClock(now), Settings(Path("tidegate.toml"), fleet_policy()))
    world.store.users.add("ann", "operator", token_hash("operators"), now)
    world.store.users.add("vic", "viewer", token_hash("viewers"), now)
    (tmp_path / "token").write_text("operators\n")
    book = Book(StoredBills(database), tmp_path, world.clock)
    uploads = Uploads(tmp_path / "uploads")
    door = BillDoor(book.book, uploads)
    built = build_app(world.api, ControllerPages(world.clock, lambda: (True, "")), door)
    server = HttpServer(built, tcp("127.0.0.1", 0), "t")
    server.start()
    yield Desk(f"http://127.0.0.1:{server.port}", tmp_path, book, uploads)
    server.stop()


def answer(result: Result) -> Any:
    """The JSON of a command; the server's log, of the same process here, comes before it."""
    lines = result.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line in ("{", "["))
    return json.loads("\n".join(lines[first:]))


BILL = focus(focus_row("1.10"), focus_row("2.20", day=2))


def test_from_import_to_reopen(desk: Desk) -> None:
    first = answer(desk.command("bill", "import", desk.bill(BILL), "--json"))
    assert (first["dry_run"], first["totals"]) == (False, {"USD": {"billed": "3.30", "effective": "3.30"}})
    assert [each["outcome"] for each in first["snapshots"]] == ["new"]
    again = desk.command("bill", "import", desk.bill(BILL, "same.csv"))
    assert "nothing changes" in again.stdout
    desk.command("bill", "import", desk.bill(BILL + focus_row("0.05") + "\n"))
    listed = answer(desk.run("bill", "list", "--all", "--json"))
    assert [(each["number"], each["active"], each["imported_by"]) for each in listed] == [
        (1, False, "ann"),
        (2, True, "ann"),
    ]
    newest = str(listed[1]["id"])
    assert "+0.05" in desk.run("bill", "diff", newest).stdout
    assert "imported" in desk.run("bill", "show", newest).stdout
    assert "nothing is quarantined" in desk.run("bill", "quarantine", newest).stdout
    assert "closed: focus A" in desk.command("bill", "close", newest, "--reason", "ties to the invoice").stdout
    assert "closed by ann: ties to the invoice" in desk.run("bill", "list").stdout
    refused = desk.command("bill", "import", desk.bill(BILL, "b.csv"), "--force")
    assert "closed by ann" in str(refused.exception)
    assert "open again" in desk.command("bill", "reopen", newest, "--reason", "the provider restated it").stdout
    assert list(desk.uploads.folder.iterdir()) == []  # nothing is left of what was sent


def test_a_dry_run_needs_nobody(desk: Desk) -> None:
    result = CliRunner().invoke(app, ["bill", "import", desk.bill(BILL), "--dry-run", "--json"])
    assert json.loads(result.stdout)["rows"] == {"read": 2, "accepted": 2, "quarantined": 0, "totals_rows": 0}
    assert list(desk.book.active) == []


def test_an_invoice_s_total_must_be_that_of_the_rows(desk: Desk) -> None:
    path = desk.bill(BILL)
    refused = desk.command("bill", "import", path, "--expect", "USD 3.31")
    said = "expected USD 3.31, the rows add up to 3.30: -0.01; --force imports it all the same"
    assert said in str(refused.exception)
    assert list(desk.book.active) == []
    dry = desk.run("bill", "import", path, "--dry-run", "--expect", "3.31")
    assert dry.exit_code == 1
    assert "expected USD 3.31: the rows add up to 3.30, -0.01" in dry.stdout
    taken = answer(desk.command("bill", "import", path, "--expect", "3.30", "--json"))
    assert taken["tie"] == {
        "currency": "USD", "expected": "3.30", "found": "3.30", "difference": "0.00", "quarantined": "0"
    }  # fmt: skip
    again = desk.command("bill", "import", path, "--expect", "3.3")
    assert "unchanged" in again.stdout
    assert "expected USD 3.3: the rows add up to it" in again.stdout


def test_quarantined_rows_are_shown_with_their_money(desk: Desk) -> None:
    desk.command("bill", "import", desk.bill(focus(focus_row("1"), focus_row("oops", "7"))))
    (version,) = desk.book.active
    shown = desk.run("bill", "quarantine", str(version.id)).stdout
    assert "bill.csv row 2: BilledCost: 'oops' is not a number (USD 7)" in shown


def test_prices(desk: Desk) -> None:
    prices = desk.bill("provider,sku,currency,price,gpus\nCoreWeave,gd-8xh100,USD,49.24,8\n", "prices.csv")
    assert "1 prices imported" in desk.command("price", "import", prices).stdout
    assert "USD 49.24 per hour" in desk.run("price", "list").stdout
    quantities = (
        "ProviderName,BillingAccountId,ChargePeriodStart,ChargePeriodEnd,SkuId,ConsumedQuantity\n"
        "CoreWeave,cw,2026-05-01T00:00:00Z,2026-05-01T01:00:00Z,GD-8xH100,2\n"
    )
    found = answer(desk.command("bill", "import", desk.bill(quantities), "--json"))
    assert found["totals"] == {"USD": {"billed": "98.48", "effective": "98.48"}}


def test_what_cannot_be_found_or_read_is_told(desk: Desk) -> None:
    assert "no version 999" in str(desk.run("bill", "show", "999").exception)
    assert "there is no such file" in str(desk.command("bill", "import", "nowhere.csv").exception)
    assert "no known bill" in str(desk.command("bill", "import", desk.bill("a,b\n1,2\n")).exception)
    assert "there is no such format" in str(desk.command("bill", "import", desk.bill(BILL), "--source", "x").exception)
    assert "three letters" in str(desk.command("bill", "import", desk.bill(BILL), "--currency", "Yuan").exception)
    assert "--reason" in str(desk.command("bill", "close", "1", "--reason", "x").exception)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("strangers", 401), ("viewers", 403)])
def test_only_an_operator_sends_files(desk: Desk, token: str, status: int) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert desk.put(f"/v1/bills/files/{sha256}", b"x", token).status_code == status
    assert list(desk.uploads.folder.iterdir()) == []


def test_a_file_lies_under_its_own_hash_alone(desk: Desk) -> None:
    right, wrong = hashlib.sha256(b"x").hexdigest(), "0" * 64
    assert desk.put(f"/v1/bills/files/{right}", b"x").json() == {"bytes": 1}
    assert desk.put(f"/v1/bills/files/{wrong}", b"x").status_code == 422
    assert desk.put("/v1/bills/files/..%2F..%2Fetc", b"x").status_code in (404, 422)
    assert [path.name for path in desk.uploads.folder.iterdir()] == [right]


def test_an_order_for_a_file_that_is_not_here_names_it(desk: Desk) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    order = {"content": "1" * 64, "parts": [{"sha256": sha256, "name": "a.csv"}]}
    assert desk.post("/v1/bills", order).json() == {"missing": [sha256], "bill": None}


@pytest.mark.parametrize(
    "change",
    [
        {"parts": []},
        {"parts": [{"sha256": "../../etc/passwd", "name": "a"}]},
        {"content": "x"},
        {"currency": "dollars"},
        {"unknown": 1},
        {"account": "a\x00b"},
    ],
)
def test_a_malformed_order_is_refused(desk: Desk, change: dict[str, object]) -> None:
    order = {"content": "1" * 64, "parts": [{"sha256": "2" * 64, "name": "a.csv"}], **change}
    assert desk.post("/v1/bills", order).status_code == 422


def test_a_bill_that_cannot_be_taken_is_409_and_leaves_nothing(desk: Desk) -> None:
    body = b"name,age\nx,1\n"
    sha256 = hashlib.sha256(body).hexdigest()
    desk.put(f"/v1/bills/files/{sha256}", body)
    refused = desk.post("/v1/bills", {"content": "1" * 64, "parts": [{"sha256": sha256, "name": "a.csv"}]})
    assert (refused.status_code, "no known bill" in refused.json()["error"]) == (409, True)
    assert list(desk.uploads.folder.iterdir()) == []


def test_standard_input_is_a_file_like_any_other(desk: Desk) -> None:
    """From a pipe, beside a copy of itself, dry and in earnest."""
    data = focus(focus_row("1.50"), focus_row("2"))
    words = ["bill", "import", "-", desk.bill(data)]
    dry = CliRunner().invoke(app, [*words, "--dry-run", "--json"], input=data)
    assert json.loads(dry.stdout)["totals"] == {"USD": {"billed": "3.50", "effective": "3.50"}}
    assert "the same as stdin" in dry.stdout
    token = ["--controller", desk.url, "--token-file", str(desk.folder / "token")]
    result = CliRunner().invoke(app, [*words, *token], input=data)
    assert (result.exit_code, str(desk.book.active[0].sums.totals[0].billed)) == (0, "3.50")


def test_overlapping_files_are_refused_until_forced(desk: Desk) -> None:
    rows = [focus_row(str(number), resource=f"i-{number}") for number in range(20)]
    words = ["bill", "import", desk.bill(focus(*rows), "a.csv"), desk.bill(focus(*rows, focus_row("99")), "b.csv")]
    refused = desk.command(*words)
    assert refused.exit_code == 1
    assert "share 100% of their rows" in str(refused.exception)
    assert desk.command(*words, "--force").exit_code == 0
