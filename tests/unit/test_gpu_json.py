"""GPU surveys as JSON: what is accepted, what one wrong figure or entry costs, and that nothing breaks the reader."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from fakes.agent_snapshot import NOON, survey
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.gpu import BASIC_FIGURES, SIGNED, GpuFigure
from tidegate.model.reading import Gap, GpuFault, GpuSurvey, Missing
from tidegate.observe.gpu_json import FIGURES, decode, encode, is_nameless

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
NAMES = ["uuid", "index", "name", "up", "why", "bus_id", "memory_type", *GpuFigure]
PARTS = st.lists(
    st.dictionaries(
        st.sampled_from(["number", "uuids", "pid", "used_bytes", "code", "count", "seconds_ago", *FIGURES]), VALUES
    ),
    max_size=3,
)
ENTRIES = st.builds(
    lambda plain, parts: {**plain, **parts},
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12),
    st.dictionaries(st.sampled_from(["instances", "compute_processes", "xids"]), PARTS | VALUES, max_size=3),
)
DOCUMENTS = VALUES | st.fixed_dictionaries(
    {},
    optional={"up": VALUES, "driver": VALUES, "fault": VALUES, "gpus": VALUES | st.lists(ENTRIES | VALUES, max_size=4)},
)


def read(document: object) -> GpuSurvey:
    return decode(document, NOON, "http")


def test_a_survey_survives_the_way_through_json(now: datetime) -> None:
    there = json.loads(json.dumps(encode(survey())))

    assert decode(there, now, "nvml") == survey()


@pytest.mark.parametrize("fault", GpuFault)
def test_a_survey_that_is_down_keeps_its_reason(fault: GpuFault) -> None:
    down = GpuSurvey(up=False, why="gone", at=NOON, source="http", fault=fault)

    assert read(json.loads(json.dumps(encode(down)))) == down


@given(DOCUMENTS)
def test_no_document_breaks_the_reader_or_yields_a_figure_that_cannot_be(document: object) -> None:
    result = read(document)

    uuids = [gpu.uuid for gpu in result.gpus]
    assert len(uuids) == len(set(uuids))
    assert all(uuids)
    for gpu in result.gpus:
        every = [gpu.figures, *(part.figures for part in gpu.instances)]
        told = [(name, value) for figures in every for name, value in figures.items() if not isinstance(value, Missing)]
        assert all(type(value) is float and abs(value) < float("inf") for _, value in told)
        assert all(value >= 0 for name, value in told if name not in SIGNED)
        assert gpu.up or not told


def test_what_only_some_readers_tell_is_absent_where_it_is_not_told() -> None:
    """The basic figures are listed as missing, the others are nobody's business there."""
    [gpu] = read({"gpus": [{"uuid": "a", "sm_activity": 0.5, "temperature_margin_celsius": -3}]}).gpus

    assert set(gpu.figures) == {*BASIC_FIGURES, GpuFigure.SM_ACTIVITY, GpuFigure.TEMPERATURE_MARGIN}
    assert gpu.figure(GpuFigure.TEMPERATURE_MARGIN) == -3.0
    assert gpu.figure(GpuFigure.NVLINKS) == Missing(Gap.NOT_REPORTED)
    assert gpu.processes == Missing(Gap.NOT_REPORTED)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, Gap.NOT_REPORTED),
        (float("nan"), Gap.NOT_FINITE),
        (float("inf"), Gap.NOT_FINITE),
        (10**400, Gap.NOT_FINITE),
        (-1, Gap.MALFORMED),
        (True, Gap.MALFORMED),
        ("87", Gap.MALFORMED),
        (87, Gap.MALFORMED),  # a percentage where a share is asked for
        ([0.5], Gap.MALFORMED),
        ({"missing": "not_supported"}, Gap.NOT_SUPPORTED),
        ({"missing": "bored"}, Gap.NOT_REPORTED),
    ],
)
def test_a_figure_that_is_wrong_is_missing_and_costs_nothing_else(value: object, why: Gap) -> None:
    [gpu] = read({"gpus": [{"uuid": "GPU-1", "utilization": value, "power_watts": 300}]}).gpus

    assert (gpu.up, gpu.utilization, gpu.power_watts) == (True, Missing(why), 300.0)


def test_more_memory_used_than_fitted_is_not_believed() -> None:
    [gpu] = read({"gpus": [{"uuid": "a", "memory_used_bytes": 9, "memory_total_bytes": 8}]}).gpus

    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (Missing(Gap.MALFORMED), 8.0)


def test_entries_that_are_wrong_are_listed_as_down_with_the_reason() -> None:
    good, twice, nameless, broken = read(
        {"gpus": [{"uuid": "a"}, {"uuid": "a", "index": 4}, {"index": 7, "up": False}, "gpu"]}
    ).gpus

    assert (good.uuid, good.up, good.index) == ("a", True, 0)
    assert (twice.uuid, twice.up, twice.index, twice.why) == ("unknown-gpu-1", False, 4, "the uuid a is listed twice")
    assert (nameless.up, nameless.index, nameless.why) == (False, 7, "the reader gives no reason")
    assert (broken.up, broken.why) == (False, "the entry is not a JSON object")
    assert [is_nameless(gpu.uuid) for gpu in (good, twice, nameless, broken)] == [False, True, True, True]


@pytest.mark.parametrize("document", [None, [], "gpus", {}, {"gpus": None}, {"gpus": {}}])
def test_a_document_of_another_shape_is_malformed(document: object) -> None:
    assert (read(document).up, read(document).fault) == (False, GpuFault.MALFORMED)
