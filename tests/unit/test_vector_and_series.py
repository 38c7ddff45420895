"""A report's vector and layout: whatever a host reading says comes out at the other end as it went in."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.machine import Machine, MachineFigure
from tidegate.model.reading import (
    Basis,
    Counter,
    Distribution,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    GpuCountSource,
    GpuFigure,
    GpuInstance,
    GpuReading,
    GpuSurvey,
    GpuUuid,
    Histogram,
    HostName,
    HostReading,
    Missing,
    Number,
    Rank,
    XidEvents,
)
from tidegate.model.series import SeriesKey, flatten, layout_id
from tidegate.model.unflatten import unflatten
from tidegate.model.vector import decode, encode

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_finite = st.floats(allow_nan=False, allow_infinity=False)
_numbers = _finite | st.sampled_from(Gap).map(Missing)
_totals = st.floats(0, 1e12)
_ranks = st.sampled_from(["0", "1", "7"]).map(Rank)


@given(st.lists(_numbers))
def test_a_vector_keeps_numbers_and_reasons(values: list[Number]) -> None:
    """Every finite number bit for bit, every reason by name."""
    assert decode(encode(values)) == tuple(values)


@given(st.binary().filter(lambda data: len(data) % 8 == 0))
def test_any_vector_decodes_to_numbers_or_reasons(data: bytes) -> None:
    """What is not finite is missing, whoever wrote it."""
    assert all(isinstance(value, Missing) or math.isfinite(value) for value in decode(data))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_stored_as_missing(value: float) -> None:
    """And a reader that knows nothing of reasons sees NaN, never a number."""
    data = encode([1.0, value])

    assert decode(data) == (1.0, Missing(Gap.NOT_FINITE))
    assert math.isnan(struct.unpack("<2d", data)[1])


def test_a_reason_of_a_later_version_is_missing_all_the_same() -> None:
    """A NaN whose reason has no name here."""
    later = struct.pack("<Q", int.from_bytes(encode([Missing(Gap.STALE)]), "little") + 100)

    assert decode(later) == (Missing(Gap.NOT_FINITE),)


def test_a_vector_of_half_a_number_is_refused() -> None:
    """Its length is said."""
    with pytest.raises(ValueError, match="12 bytes"):
        decode(bytes(12))


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (EngineKind, ["vllm", "sglang", "tensorrt-llm", "triton", "tgi", "lmdeploy", "llama.cpp", "dynamo"]),
        (EngineState, ["ready", "starting", "unreachable", "hanging", "stalled", "disabled", "unauthorized"]),
        (Basis, ["tokens", "blocks", "lifetime"]),
        (GpuCountSource, ["engine", "processes", "configuration"]),
    ],
)
def test_words_keep_their_positions(words: type[StrEnum], first: list[str]) -> None:
    """They are stored as positions: a list may grow at its end and nowhere else."""
    assert [word.value for word in words][: len(first)] == first


def test_no_two_engine_series_share_a_name() -> None:
    """Gauges, counters and what an engine has one of stand side by side on the wire."""
    plain = ["state", "at", "kind", "started", "gpus", "gpus_source", "kv_usage_basis"]
    parts = [f"{name.value}{part}" for name in Distribution for part in ("_bucket", "_sum", "_count")]
    names = [*plain, *parts, *(name.value for name in Gauge), *(name.value for name in Counter)]

    assert len(set(names)) == len(names)


def test_a_report_with_words_of_a_later_version_is_read() -> None:
    """Series, kinds and bases that are not known here are passed over; the others stay."""
    keys = [SeriesKey("engine", "e", name, "0") for name in ("running", "tomorrows_gauge", "prompt_tokens")]
    keys += [SeriesKey("engine", "e", name) for name in ("kind", "kv_usage_basis", "gpus_source", "state")]
    found = unflatten(HostName("h"), _AT, keys, [3.0, 4.0, 5.0, 999.0, 999.0, 999.0, 0.0]).engines[0]

    assert (found.kind, found.kv_usage_basis, found.gpus_source, found.state) == (None, None, None, EngineState.READY)
    assert found.gauges == {(Gauge.RUNNING, Rank("0")): 3.0}
    assert found.counters == {(Counter.PROMPT_TOKENS, Rank("0")): 5.0}


def test_reasons_keep_their_codes() -> None:
    """The order of `Gap` is stored: it may grow at its end and nowhere else."""
    assert [why.value for why in Gap][:12] == [
        "unreachable",
        "disabled",
        "starting",
        "stale",
        "not_finite",
        "not_supported",
        "reset",
        "no_traffic",
        "one_scrape",
        "malformed",
        "unauthorized",
        "not_reported",
    ]
    assert encode([Missing(Gap.UNREACHABLE)]).hex() == "010065646974f87f"


@st.composite
def _histograms(draw: st.DrawFn) -> Histogram:
    bounds = [*sorted(draw(st.sets(st.floats(0.001, 100), min_size=1, max_size=4))), math.inf]
    counts = sorted(draw(st.lists(_totals, min_size=len(bounds), max_size=len(bounds))))
    return Histogram(tuple(bounds), tuple(counts), draw(_totals), counts[-1])


@st.composite
def _engines(draw: st.DrawFn, name: str) -> EngineReading:
    return EngineReading(
        EngineName(name),
        draw(st.none() | st.sampled_from(EngineKind)),
        draw(st.sampled_from(EngineState)),
        _AT + timedelta(seconds=draw(st.integers(-60, 60))),
        gauges=draw(st.dictionaries(st.tuples(st.sampled_from(Gauge), _ranks), _numbers, max_size=4)),
        counters=draw(st.dictionaries(st.tuples(st.sampled_from(Counter), _ranks), _totals, max_size=6)),
        histograms=draw(st.dictionaries(st.tuples(st.sampled_from(Distribution), _ranks), _histograms(), max_size=3)),
        started=draw(st.none() | st.floats(1e9, 2e9)),
        gpus=draw(st.none() | st.integers(0, 16)),
        gpus_source=draw(st.none() | st.sampled_from(GpuCountSource)),
        kv_usage_basis=draw(st.none() | st.sampled_from(Basis)),
    )


_figures = st.dictionaries(st.sampled_from(GpuFigure), _numbers, max_size=9)


@st.composite
def _gpus(draw: st.DrawFn, index: int) -> GpuReading:
    partitions = draw(st.dictionaries(st.integers(0, 14), _figures.filter(bool), max_size=3))
    xids = draw(st.dictionaries(st.integers(1, 200), st.integers(0, 1 << 40), max_size=2))
    return GpuReading(
        GpuUuid(f"GPU-{index}"),
        index,
        "",
        draw(st.booleans()),
        figures=draw(_figures),
        instances=tuple(GpuInstance(number, figures=partitions[number]) for number in sorted(partitions)),
        xids={code: XidEvents(count, _AT) for code, count in xids.items()},
    )


@given(st.data())
def test_a_host_reading_comes_back_as_it_was(data: st.DataObject) -> None:
    """Through keys, values and the packed vector; words stay behind."""
    engines = tuple(data.draw(_engines(name)) for name in ("a", "b")[: data.draw(st.integers(0, 2))])
    gpus = tuple(data.draw(_gpus(index)) for index in range(data.draw(st.integers(0, 2))))
    survey = GpuSurvey(data.draw(st.booleans()), "", _AT, gpus=gpus)
    figures = st.dictionaries(st.tuples(st.sampled_from(MachineFigure), st.sampled_from(["", "eth0"])), _numbers)
    reading = HostReading(HostName("h"), _AT, survey, engines, Machine(data.draw(figures)))

    keys, values = flatten(reading)

    assert unflatten(HostName("h"), _AT, keys, decode(encode(values))) == reading
    assert len(set(keys)) == len(keys)


def test_words_and_order_do_not_change_the_layout() -> None:
    """Two readings with the same series share a layout, whatever their values and the order of discovery."""
    one = EngineReading(
        EngineName("a"), EngineKind.VLLM, EngineState.READY, _AT, gauges={(Gauge.RUNNING, Rank("0")): 1}
    )
    other = replace(one, engine=EngineName("b"), problems=("x",))
    survey = GpuSurvey(up=False, why="no driver", at=_AT)

    first, _ = flatten(HostReading(HostName("h"), _AT, survey, (one, other)))
    second, _ = flatten(HostReading(HostName("h"), _AT, survey, (replace(other, hints=("y",)), one)))

    assert layout_id(first) == layout_id(second)
    assert layout_id(first) != layout_id(first[:-1])


def test_series_of_an_unknown_name_are_passed_over() -> None:
    """A newer agent's figures do not hide those that both know."""
    keys = [
        SeriesKey("engine", "a", "state"),
        SeriesKey("engine", "a", "flux", "0"),
        SeriesKey("engine", "a", "warp_bucket", "0", "x"),
        SeriesKey("engine", "a", "steps", "0"),
        SeriesKey("star", "a", "light"),
    ]

    reading = unflatten(HostName("h"), _AT, keys, [0.0, 1.0, 1.0, 7.0, 1.0])

    assert reading.engines[0].counters == {(Counter.STEPS, Rank("0")): 7.0}


@pytest.mark.parametrize("le", ["", "x", "nan"])
def test_a_bound_that_is_no_number_is_refused(le: str) -> None:
    """The layout is wrong, not the value."""
    with pytest.raises(ValueError, match="not"):
        unflatten(HostName("h"), _AT, [SeriesKey("engine", "a", "ttft_bucket", "0", le)], [1.0])


@given(st.lists(_numbers, min_size=8, max_size=8))
def test_no_value_is_refused(values: list[Number]) -> None:
    """A time in the year 300000, a state of -3, half a GPU: missing or doubted, never an error."""
    keys = [
        SeriesKey("host", "", "nvml_up"),
        SeriesKey("gpu", "g", "index"),
        SeriesKey("gpu", "g", "up"),
        SeriesKey("engine", "a", "state"),
        SeriesKey("engine", "a", "kind"),
        SeriesKey("engine", "a", "at"),
        SeriesKey("engine", "a", "started"),
        SeriesKey("engine", "a", "ttft_bucket", "0", "+Inf"),
    ]

    engine = unflatten(HostName("h"), _AT, keys, values).engines[0]

    assert engine.histograms == {}
    assert isinstance(engine.state, EngineState)


def test_a_histogram_with_a_gap_is_absent() -> None:
    """Half a histogram has no quantile."""
    keys = [SeriesKey("engine", "a", f"ttft{part}", "0", le) for part, le in _PARTS]

    whole = unflatten(HostName("h"), _AT, keys, [1.0, 2.0, 0.5, 2.0]).engines[0]
    torn = unflatten(HostName("h"), _AT, keys, [Missing(Gap.NOT_FINITE), 2.0, 0.5, 2.0]).engines[0]

    assert whole.histograms == {(Distribution.TTFT, Rank("0")): Histogram((0.1, math.inf), (1.0, 2.0), 0.5, 2.0)}
    assert torn.histograms == {}


_PARTS = (("_bucket", "0.1"), ("_bucket", "+Inf"), ("_sum", ""), ("_count", ""))


def test_readings_of_one_layout_share_their_keys_and_bounds() -> None:
    """Tens of thousands are in memory at a time, and the garbage collector looks at each object."""
    names = [("ttft_bucket", "1.0"), ("ttft_bucket", "+Inf"), ("ttft_sum", ""), ("ttft_count", "")]
    keys = [SeriesKey("engine", "a", name, "0", le) for name, le in names]
    one, other = (unflatten(HostName("h"), _AT, keys, [1.0, 2.0, 0.5, 2.0]).engines[0].histograms for _ in range(2))
    ((key, _),), ((same, _),) = one.items(), other.items()
    assert key is same
    assert one[key].bounds is other[key].bounds
