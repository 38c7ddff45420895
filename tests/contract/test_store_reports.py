"""Reports are stored once, whole or not at all; held by the store in memory and by the one in Postgres."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from fakes.store import FakeStore
from fakes.store_batches import HOST, batch, down, engine, pack, reading

from tidegate.model.reading import (
    EngineState,
    Gap,
    Gauge,
    GpuFigure,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    HostName,
    HostReading,
    Missing,
    Rank,
)
from tidegate.store.store import Store
from tidegate.wire import Accepted, Incoming, Layout, Range, Report

AnyStore = FakeStore | Store
STEP = timedelta(seconds=15)


def looks(start: datetime, count: int, host: HostName = HOST) -> list[HostReading]:
    """One engine, sampled every 15 s."""
    return [
        reading(at, engine(at, generation_tokens=10.0 * number), host=host)
        for number, at in enumerate(start + STEP * number for number in range(count))
    ]


def everything(store: AnyStore, at: datetime, host: HostName | None = None) -> list[HostReading]:
    return list(store.reports.readings(at - timedelta(days=40), at + timedelta(days=40), host))


def test_what_was_reported_is_read_back(store: AnyStore, now: datetime) -> None:
    """Numbers, reasons for their absence and states survive."""
    told = {GpuFigure.UTILIZATION: 0.5, GpuFigure.POWER: Missing(Gap.NOT_SUPPORTED)}
    gpu = GpuReading(GpuUuid("GPU-1"), 0, "", up=True, figures=told)
    ready = engine(now, generation_tokens=7.0)
    gauged = type(ready)(
        ready.engine, ready.kind, ready.state, now, gauges={(Gauge.RUNNING, Rank("0")): Missing(Gap.STALE)}
    )
    look = HostReading(HOST, now, GpuSurvey(up=True, why="", at=now, gpus=(gpu,)), (gauged, down(now, "vllm-1")))
    store.reports.accept(HOST, *batch(look), now)
    (found,) = everything(store, now)
    assert found.at == now
    assert found.gpus.gpus[0].utilization == 0.5
    assert found.gpus.gpus[0].power_watts == Missing(Gap.NOT_SUPPORTED)
    assert found.engines[0].gauges == {(Gauge.RUNNING, Rank("0")): Missing(Gap.STALE)}
    assert found.engines[1].state is EngineState.UNREACHABLE


def test_the_same_batch_again_is_acknowledged_and_stored_once(store: AnyStore, now: datetime) -> None:
    layouts, reports = batch(*looks(now, 4))
    first = store.reports.accept(HOST, layouts, reports, now)
    again = store.reports.accept(HOST, [], reports, now + STEP)
    assert first.acknowledged == again.acknowledged == (Range(boot_id="boot-a", first=1, last=4),)
    assert (first.stored, first.duplicates) == (4, 0)
    assert (again.stored, again.duplicates, again.need_layouts) == (0, 4, ())
    assert store.reports.count(HOST) == len(everything(store, now)) == 4


def test_a_report_twice_in_one_batch_is_stored_once(store: AnyStore, now: datetime) -> None:
    layouts, reports = batch(*looks(now, 1))
    accepted = store.reports.accept(HOST, layouts, reports * 2, now)
    assert (accepted.stored, accepted.duplicates) == (1, 1)
    assert store.reports.count(HOST) == 1


def test_acknowledgement_is_by_runs_of_each_boot(store: AnyStore, now: datetime) -> None:
    layouts, reports = batch(*looks(now, 5))
    _, rebooted = batch(*looks(now + STEP * 9, 1), boot="boot-b")
    accepted = store.reports.accept(HOST, layouts, [*reports[3:], *reports[:2], *rebooted], now)
    assert accepted.acknowledged == (
        Range(boot_id="boot-a", first=1, last=2),
        Range(boot_id="boot-a", first=4, last=5),
        Range(boot_id="boot-b", first=1, last=1),
    )


def test_an_unknown_layout_is_asked_for_and_its_report_not_acknowledged(store: AnyStore, now: datetime) -> None:
    (layout,), (known,) = batch(*looks(now, 1))
    other, unknown = pack(reading(now + STEP, engine(now + STEP, "vllm-9", prompt_tokens=1.0)), 2)
    accepted = store.reports.accept(HOST, [layout], [known, unknown, unknown], now)
    assert accepted.need_layouts == (other.id,)
    assert accepted.acknowledged == (Range(boot_id="boot-a", first=1, last=1),)
    accepted = store.reports.accept(HOST, [other], [unknown], now)
    assert accepted.acknowledged == (Range(boot_id="boot-a", first=2, last=2),)


def test_a_layout_is_known_for_later_batches_of_its_host_alone(store: AnyStore, now: datetime) -> None:
    layouts, reports = batch(*looks(now, 2))
    store.reports.accept(HOST, layouts, reports[:1], now)
    assert store.reports.accept(HOST, [], reports[1:], now).stored == 1
    elsewhere = store.reports.accept(HostName("gpu-2"), [], reports, now)
    assert (elsewhere.stored, elsewhere.need_layouts) == (0, (layouts[0].id,))


def test_a_vector_that_does_not_fit_its_layout_stores_nothing(store: AnyStore, now: datetime) -> None:
    layouts, (good, bad) = batch(*looks(now, 2))
    short = Report(boot_id=bad.boot_id, sequence=2, at=bad.at, layout=bad.layout, values=bad.values[:-8])
    with pytest.raises(ValueError, match="boot-a/2: 4 values for the 5 series"):
        store.reports.accept(HOST, layouts, [good, short], now)
    assert store.reports.count(HOST) == 0
    assert store.reports.accept(HOST, [], [good], now).need_layouts == (layouts[0].id,)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "0" * 32}, "is not the hash"),
        ({"series": [["host", "", "nvml_up", "", ""]] * 2}, "is not the hash"),
    ],
)
def test_a_layout_that_lies_about_its_content_is_refused(
    store: AnyStore, now: datetime, change: dict[str, object], problem: str
) -> None:
    (layout,), reports = batch(*looks(now, 1))
    forged = Layout.model_validate({**layout.model_dump(), **change})
    with pytest.raises(ValueError, match=problem):
        store.reports.accept(HOST, [forged], reports, now)
    assert store.reports.count(HOST) == 0


def test_readings_come_by_host_then_by_time_within_the_span(store: AnyStore, now: datetime) -> None:
    """However they arrived; the end is left out, the start is not."""
    for host in ("gpu-2", "gpu-1"):
        layouts, reports = batch(*looks(now, 5, HostName(host)))
        store.reports.accept(HostName(host), layouts, reports[::-1], now)
    found = list(store.reports.readings(now + STEP, now + STEP * 4))
    assert [(look.host, look.at) for look in found] == [
        (host, now + STEP * step) for host in ("gpu-1", "gpu-2") for step in (1, 2, 3)
    ]
    only = list(store.reports.readings(now + STEP, now + STEP * 4, HostName("gpu-2")))
    assert [look.host for look in only] == ["gpu-2"] * 3


def test_reports_around_midnight_are_read_in_order(store: AnyStore) -> None:
    """The day is a border of storage, not of time."""
    midnight = datetime(2026, 11, 25, tzinfo=UTC)
    store.reports.accept(HOST, *batch(*looks(midnight - STEP * 3, 6)), midnight + STEP)
    moments = [look.at for look in everything(store, midnight)]
    assert len(moments) == 6
    assert all(later - earlier == STEP for earlier, later in pairwise(moments))


@pytest.mark.parametrize("wrong", [timedelta(days=-400), timedelta(hours=3)])
def test_an_impossible_time_is_replaced_by_that_of_receipt_once(
    store: AnyStore, now: datetime, wrong: timedelta
) -> None:
    """A host whose clock is off is stamped on receipt; delivered again later it is still the same report."""
    layouts, reports = batch(*looks(now + wrong, 1))
    store.reports.accept(HOST, layouts, reports, now)
    again = store.reports.accept(HOST, layouts, reports, now + STEP)
    assert again.duplicates == 1
    assert [look.at for look in everything(store, now)] == [now]


def test_a_batch_without_reports_only_brings_its_layouts(store: AnyStore, now: datetime) -> None:
    layouts, reports = batch(*looks(now, 1))
    assert store.reports.accept(HOST, layouts, [], now).acknowledged == ()
    assert store.reports.accept(HOST, [], reports, now).stored == 1


def test_the_series_of_a_layout_are_told_by_its_name(store: AnyStore, now: datetime) -> None:
    """As they were sent, those too that this version could not name itself; a host knows its own layouts alone."""
    (layout,), reports = batch(*looks(now, 1))
    store.reports.accept(HOST, [layout], reports, now)
    for _ in range(2):  # from the store, then from what it remembers
        found = store.reports.readers([(HOST, layout.id), (HOST, "0" * 32)])
        rows = {pair: [key.row() for key in reader.keys] for pair, reader in found.items()}
        assert rows == {(HOST, layout.id): layout.series}
    assert store.reports.readers([(HostName("gpu-2"), layout.id)]) == {}


def test_what_hosts_bring_together_gets_an_answer_each(store: AnyStore, now: datetime) -> None:
    """A report that comes twice in a group is stored once; what does not fit its layout harms nobody else."""
    other = HostName("gpu-2")
    layouts, reports = batch(*looks(now, 2))
    torn = [reports[0].model_copy(update={"values": b""})]
    group = [
        Incoming(HOST, layouts, reports[:1], now),
        Incoming(other, layouts, torn, now),
        Incoming(HOST, layouts, reports, now),
        Incoming(other, layouts, reports[1:], now),
    ]
    outcomes = store.reports.accept_all(group)
    assert isinstance(outcomes[1], ValueError)
    stored = [(one.stored, one.duplicates) for one in outcomes if isinstance(one, Accepted)]
    assert stored == [(1, 0), (1, 1), (1, 0)]
    assert (store.reports.count(HOST), store.reports.count(other)) == (2, 1)
