"""What arrives in a folder or at an address: each delivery once, whole, and only when it is at rest."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.bills import focus, focus_row, read_files
from fakes.clock import ManualClock

from tidegate.bills.remote import RemotePlace, options_in
from tidegate.bills.watch import Seen, deliveries_in
from tidegate.controller.bill_watch import BillWatch
from tidegate.model.bill import AsideSum, BillRead, ImportOrder, ImportResult
from tidegate.runtime.errors import Permanent, Transient

fsspec = pytest.importorskip("fsspec")
BILL = focus(focus_row())


def later(seconds: float = 120) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_a_file_is_taken_when_it_is_at_rest_and_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "bill.csv").write_text(BILL)
    (folder / ".bill.csv.part").write_text("half")
    assert deliveries_in(folder, later(-3600)) == []
    (delivery,) = deliveries_in(folder, later())
    seen = Seen(tmp_path / "seen.json")
    assert not seen.knows(delivery)
    seen.add(delivery)
    again = Seen(tmp_path / "seen.json")
    assert again.knows(delivery)
    (folder / "bill.csv").write_text(BILL + focus_row() + "\n")
    (changed,) = deliveries_in(folder, later())
    assert not again.knows(changed)


def test_a_damaged_memory_is_no_end(tmp_path: Path) -> None:
    (tmp_path / "seen.json").write_text("{nonsense")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(BILL)
    (delivery,) = deliveries_in(tmp_path / "in", later())
    assert not Seen(tmp_path / "seen.json").knows(delivery)


def delivered(folder: Path) -> None:
    """An AWS delivery: data and metadata side by side below the manifest."""
    (folder / "x").mkdir(parents=True)
    (folder / "x" / "data-1.csv").write_text(BILL)
    (folder / "x" / "stale.csv").write_text(BILL)
    (folder / "report-Manifest.json").write_text(json.dumps({"reportKeys": ["bucket/prefix/x/data-1.csv"]}))
    (folder.parent / "other.csv").write_text(BILL)


def test_a_manifest_and_its_files_are_one_delivery(tmp_path: Path) -> None:
    delivered(tmp_path / "in" / "may")
    found = deliveries_in(tmp_path / "in", later())
    assert [each.name for each in found] == ["may/report-Manifest.json", "other.csv"]
    before = found[0].mark
    os.utime(tmp_path / "in" / "may" / "x" / "data-1.csv", (1, 1))
    assert deliveries_in(tmp_path / "in", later())[0].mark != before


def test_an_address_is_read_through_fsspec(tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    source = tmp_path / "in" / "may"
    delivered(source)
    for path in (tmp_path / "in").rglob("*"):
        if path.is_file():
            system.pipe(f"/bills/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
    place = RemotePlace("memory://bills", {})
    first, second = sorted(place.deliveries(), key=lambda delivery: delivery.name)
    assert (first.name, second.name) == ("may/report-Manifest.json", "other.csv")
    with place.fetched(first, tmp_path) as paths:
        assert [path.name for path in paths] == ["report-Manifest.json"]
        assert len(read_files(paths).charges) == 1
    assert not list(tmp_path.glob(".fetch-*"))
    system.rm("/bills", recursive=True)


@pytest.mark.parametrize("execution", ["", "2026-03-05T01:00:00.000Z-a2/"])
def test_aws_data_exports_come_as_a_whole_from_folders_side_by_side(tmp_path: Path, execution: str) -> None:
    """Metadata and data of a month each have a folder; what has no manifest yet waits for it, however long at rest."""
    parts = [f"data/BILLING_PERIOD=2026-03/{execution}x-0000{number}.csv" for number in (1, 2)]
    listed = {"exportArn": "arn:x", "dataFiles": [f"s3://bucket/pre/exp/{part}" for part in parts]}
    manifest = f"metadata/BILLING_PERIOD=2026-03/{execution}exp-Manifest.json"
    late = f"data/BILLING_PERIOD=2026-04/{execution}x-00001.csv"
    files = {manifest: json.dumps(listed)} | {part: focus(focus_row(day=3 + at)) for at, part in enumerate(parts)}
    system, root = fsspec.filesystem("memory"), tmp_path / "in" / "exp"
    for name, text in (files | {late: BILL}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        system.pipe(f"/exports/exp/{name}", text.encode())
    (here,) = deliveries_in(tmp_path / "in", later())
    assert (here.name, len(read_files(here.paths).charges)) == (f"exp/{manifest}", 2)
    place = RemotePlace("memory://exports", {})
    (there,) = place.deliveries()
    with place.fetched(there, tmp_path) as paths:
        assert len(read_files(paths).charges) == 2
    before = here.mark
    os.utime(root / parts[1], (1, 1))
    assert deliveries_in(tmp_path / "in", later())[0].mark != before
    system.rm("/exports", recursive=True)


def test_what_came_first_is_taken_first_and_older_runs_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for run, at in (("bbbb", 100), ("aaaa", 200)):
        run_folder = folder / "20260501-20260531" / run
        run_folder.mkdir(parents=True)
        (run_folder / "part.csv").write_text(BILL)
        manifest = {
            "exportConfig": {"exportName": "daily"},
            "runInfo": {"submittedTime": f"2026-05-0{at // 100}", "startDate": "2026-05-01"},
            "blobs": [{"blobName": f"x/{run}/part.csv", "dataRowCount": 1}],
        }
        (run_folder / "manifest.json").write_text(json.dumps(manifest))
        os.utime(run_folder / "manifest.json", (at, at))
    for name, at in (("z.csv", 50), ("a.csv", 150)):
        (folder / name).write_text(BILL)
        os.utime(folder / name, (at, at))
    names = [each.name for each in deliveries_in(folder, later())]
    assert names == ["z.csv", "a.csv", "20260501-20260531/aaaa/manifest.json"]


def test_a_wrong_address_is_told_with_the_remedy() -> None:
    with pytest.raises(Permanent, match=r"\[bills\] address nosuch://x"):
        RemotePlace("nosuch://x", {}).deliveries()


def test_a_bucket_that_does_not_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries of protocols have errors of their own, which are no OSError."""

    class BotoCoreError(Exception):
        """As botocore's."""

    def away(*_: object, **__: object) -> None:
        raise BotoCoreError("Could not connect to the endpoint URL")

    system = fsspec.filesystem("memory")
    monkeypatch.setitem(sys.modules, "botocore.exceptions", SimpleNamespace(BotoCoreError=BotoCoreError))
    monkeypatch.setattr(type(system), "find", away)
    with pytest.raises(Transient, match=r"memory://bills cannot be read .*endpoint.* it is tried again"):
        RemotePlace("memory://bills", {}).deliveries()


def test_credentials_are_never_repeated(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"secret": "hunter2"')
    with pytest.raises(Permanent) as refused:
        options_in(tmp_path / "options.json")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(RemotePlace("s3://b", {"secret": "hunter2"}))


@dataclass
class FakeArrival:
    name: str
    dealt_with: list[str]

    @contextmanager
    def fetched(self) -> Iterator[ImportOrder]:
        yield ImportOrder(self.name, ())

    def done(self) -> None:
        self.dealt_with.append(self.name)


@dataclass
class FakePlace:
    names: list[str]
    dealt_with: list[str] = field(default_factory=list)

    def arrivals(self, now: datetime, again: Collection[str] = ()) -> list[FakeArrival]:
        wanted = [name for name in self.names if name in again or name not in self.dealt_with]
        return [FakeArrival(name, self.dealt_with) for name in wanted]


@dataclass
class FakeStore:
    changed: datetime | None = None

    def priced_at(self) -> datetime | None:
        return self.changed


@dataclass
class FakeBook:
    clock: ManualClock
    taken: list[str] = field(default_factory=list)
    store: FakeStore = field(default_factory=FakeStore)

    def take(self, order: ImportOrder, who: str) -> ImportResult:
        if order.content == "bad":
            raise Permanent("bad.csv: no known bill has these columns")
        self.taken.append(order.content)
        lacking = order.content == "unpriced" and self.store.changed is None
        return ImportResult(BillRead((), (), (), AsideSum(rows=int(lacking)), (), (), ()), ())


def test_a_bad_delivery_stops_no_other_and_is_left_until_it_changes(now: datetime) -> None:
    book, place = FakeBook(ManualClock(now)), FakePlace(["bad", "good"])
    watch = BillWatch(book, lambda: [place])  # type: ignore[arg-type]  # all that it uses of a book
    watch()
    watch()
    assert book.taken == ["good"]
    assert place.dealt_with == ["bad", "good"]
    assert watch.last == {"bad": "bad.csv: no known bill has these columns"}


def test_what_was_not_taken_whole_is_read_again_when_prices_have_changed(now: datetime) -> None:
    book, place = FakeBook(ManualClock(now)), FakePlace(["bad", "unpriced", "good"])
    watch = BillWatch(book, lambda: [place])  # type: ignore[arg-type]
    watch()
    watch()
    assert book.taken == ["unpriced", "good"]
    book.store.changed = now
    watch()
    watch()
    assert book.taken == ["unpriced", "good", "unpriced"]
    assert place.dealt_with == ["bad", "unpriced", "good", "bad", "unpriced"]
