"""Put the book of bills together: its store, its readers, its uploads, the places that it watches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate.bills.orders import hashes_of, order_of
from tidegate.bills.parts import gather
from tidegate.bills.reading import reading_of
from tidegate.bills.remote import RemotePlace, options_in
from tidegate.bills.watch import Delivery, Seen, deliveries_in
from tidegate.bills.wishes import Wishes
from tidegate.config.settings_bills import BillSettings
from tidegate.controller.bill_book import BillBook
from tidegate.controller.bill_watch import Arrival, BillWatch, Place
from tidegate.controller.running_config import RunningConfig
from tidegate.link.bill_routes import BillDoor
from tidegate.link.uploads import Uploads
from tidegate.model.bill import ImportOrder
from tidegate.runtime.clock import Clock
from tidegate.store.bills import StoredBills


@dataclass(frozen=True, slots=True)
class BillSide:
    """What the controller has of bills."""

    book: BillBook
    door: BillDoor
    watch: BillWatch


def bill_side(bills: StoredBills, current: RunningConfig, clock: Clock) -> BillSide:
    """The book of bills over its store."""
    state_dir = current.settings.controller.state_dir
    book = BillBook(clock, bills, reading_of, lambda: current.settings.bills.accounts)
    uploads = Uploads(state_dir / "bill-files")
    seen = Seen(state_dir / "bills-seen.json")

    def places() -> Sequence[Place]:
        return _places(current.settings.bills, seen, state_dir)

    return BillSide(book, BillDoor(book, uploads), BillWatch(book, places))


def _places(settings: BillSettings, seen: Seen, state_dir: Path) -> Sequence[Place]:
    found: list[Place] = []
    if settings.folder is not None:
        found.append(_Folder(settings, settings.folder, seen))
    if settings.address:
        options = options_in(settings.options_file) if settings.options_file else {}
        found.append(_Remote(settings, RemotePlace(settings.address, options), seen, state_dir))
    return found


@dataclass(frozen=True, slots=True)
class _Folder:
    settings: BillSettings
    folder: Path
    seen: Seen

    def arrivals(self, now: datetime, again: Collection[str] = ()) -> Sequence[Arrival]:
        if not self.folder.is_dir():
            return []
        found = [_Here(self, each) for each in deliveries_in(self.folder, now)]
        return [each for each in found if each.name in again or not self.seen.knows(each.delivery)]


@dataclass(frozen=True, slots=True)
class _Here:
    place: _Folder
    delivery: Delivery

    @property
    def name(self) -> str:
        return self.delivery.name

    @contextmanager
    def fetched(self) -> Iterator[ImportOrder]:
        yield _order(self.delivery.paths, self.place.settings)

    def done(self) -> None:
        self.place.seen.add(self.delivery)


@dataclass(frozen=True, slots=True)
class _Remote:
    settings: BillSettings
    place: RemotePlace
    seen: Seen
    state_dir: Path

    def arrivals(  # an object is whole when it is listed
        self,
        now: datetime,  # noqa: ARG002
        again: Collection[str] = (),
    ) -> Sequence[Arrival]:
        found = [_There(self, each) for each in self.place.deliveries()]
        return [each for each in found if each.name in again or not self.seen.knows(each.delivery)]


@dataclass(frozen=True, slots=True)
class _There:
    remote: _Remote
    delivery: Delivery

    @property
    def name(self) -> str:
        return f"{self.remote.place.address}/{self.delivery.name}"

    def fetched(self) -> AbstractContextManager[ImportOrder]:
        return self._fetched()

    @contextmanager
    def _fetched(self) -> Iterator[ImportOrder]:
        with self.remote.place.fetched(self.delivery, self.remote.state_dir) as paths:
            yield _order(paths, self.remote.settings)

    def done(self) -> None:
        self.remote.seen.add(self.delivery)


def _order(paths: Sequence[Path], settings: BillSettings) -> ImportOrder:
    bundle = gather(list(paths))
    return order_of(bundle, Wishes(currency=settings.currency), hashes_of(bundle))
