"""The exposition parser: both formats, every way a line can be bad, bodies that were cut, and bytes of any kind."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tidegate.observe.labels import Skip
from tidegate.observe.textformat import Limits, normalise, parse


def test_reads_names_labels_and_values() -> None:
    """Comments, blank lines, tabs and blanks around are all of the format."""
    body = b'# HELP a x\n# TYPE a gauge\na 1\n\n  b{x="1", y="2",} 2.5e3 1700000000000\nc\t-0.5\nd {z="3"} +Inf\r\n'

    found = parse(body)

    assert {name: [(dict(s.labels), s.value) for s in samples] for name, samples in found.samples.items()} == {
        "a": [({}, 1.0)],
        "b": [({"x": "1", "y": "2"}, 2500.0)],
        "c": [({}, -0.5)],
        "d": [({"z": "3"}, math.inf)],
    }
    assert found.skipped == {}
    assert found.whole


@pytest.mark.parametrize(
    "line",
    ["vllm:x_total 3", "vllm_x_total 3", "vllm.x_total 3", '{"vllm.x_total"} 3', '{"vllm:x_total",a="b"} 3'],
)
def test_every_spelling_of_a_name_is_one(line: str) -> None:
    """Colons, dots and underscores are the same, whatever a TYPE line says of them; so are quoted names."""
    found = parse(f"# TYPE vllm:x histogram\n{line}\n".encode(), frozenset({"vllm_x_total"}))

    assert found.samples["vllm_x_total"][0].value == 3.0


def test_unescapes_label_values() -> None:
    """Backslash, quote and newline are escaped; braces, blanks and hashes inside a value are only text."""
    body = rb'a{x="q\"q",y="b\\n",z="l\nl",w="} # {",v="\d"} 1' + b"\n"

    labels = parse(body).samples["a"][0].labels

    assert labels == {"x": 'q"q', "y": "b\\n", "z": "l\nl", "w": "} # {", "v": "\\d"}


def test_a_value_that_looks_like_the_end_of_the_labels_is_a_value() -> None:
    """The quick way to the labels' end must not be fooled, not even by labels that were seen before."""
    body = b'a{x="1"} 1\na{x="1",y="} 2"} 3\na{x="} 9"} 4\n'

    assert [(dict(s.labels), s.value) for s in parse(body).samples["a"]] == [
        ({"x": "1"}, 1.0),
        ({"x": "1", "y": "} 2"}, 3.0),
        ({"x": "} 9"}, 4.0),
    ]


def test_exemplars_and_timestamps_are_passed_over() -> None:
    """OpenMetrics puts both behind a value, with labels or without."""
    body = b'a_total 5 1700000000.25 # {trace_id="x"} 0.5 1.5\nb_bucket{le="1"} 2 # {} 0.1\nc 7 # {t="}"} 1\n# EOF\n'

    found = parse(body)

    assert {name: samples[0].value for name, samples in found.samples.items()} == {"a_total": 5, "b_bucket": 2, "c": 7}
    assert found.skipped == {}


def test_created_times_are_nobodys_values() -> None:
    """A `_created` beside a counter is read only by whoever asks for it by that name."""
    body = b"a_total 5\na_created 1.7e9\n"

    assert parse(body, frozenset({"a_total"})).samples.keys() == {"a_total"}
    assert parse(body, frozenset({"a_created"})).samples["a_created"][0].value == 1.7e9


def test_only_what_is_wanted_is_read_and_all_that_is_there_is_known() -> None:
    """A bad line of a family that nobody wants is not even looked at."""
    found = parse(b'want 1\nother{broken 2\nother{x="1"} 2\n', frozenset({"want"}))

    assert found.samples.keys() == {"want"}
    assert found.present == {"want", "other"}
    assert found.skipped == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a", Skip.NO_VALUE),
        ('a{x="1"}', Skip.NO_VALUE),
        ("a one", Skip.BAD_VALUE),
        ("a 1_000", Skip.BAD_VALUE),
        ("a ١", Skip.BAD_VALUE),
        ("a 1 2 3", Skip.BAD_VALUE),
        ("a 0x1", Skip.BAD_VALUE),
        ("a{x=1} 1", Skip.BAD_LABELS),
        ('a{x="1" 1', Skip.BAD_LABELS),
        ('a{x="1"y="2"} 1', Skip.BAD_LABELS),
        ('a{x="1",x="2"} 1', Skip.BAD_LABELS),
        ('a{x="1,y="2"} 1', Skip.BAD_LABELS),
        ('a{x="123456789"} 1', Skip.LABEL_TOO_LONG),
        ('a{x="1",y="2",z="3"} 1', Skip.TOO_MANY_LABELS),
    ],
)
def test_a_bad_line_is_counted_and_spoils_its_family(line: str, why: Skip) -> None:
    """A sum without one of its parts would look like a counter that fell, so the whole family is left out."""
    found = parse(f'a{{k="good"}} 1\n{line}\nb 2\n'.encode(), limits=Limits(labels=2, label_length=8))

    assert found.skipped == {why: 1}
    assert found.spoiled == {"a"}
    assert found.samples.keys() == {"b"}


def test_lines_without_a_name_are_counted() -> None:
    """Prose and markup are no samples."""
    found = parse("<html>\n{}\n1 2\n-\né 1\na 1\n".encode())

    assert found.skipped == {Skip.NO_NAME: 5}
    assert found.samples.keys() == {"a"}


def test_a_series_written_twice_counts_once() -> None:
    """The first one stands, however the second spells the same labels."""
    found = parse(b'a{x="1",y="2"} 1\na{y="2",x="1"} 9\na{y="2", x="1",} 9\n')

    assert [s.value for s in found.samples["a"]] == [1.0]
    assert found.skipped == {Skip.DUPLICATE: 2}


def test_too_many_series_are_counted() -> None:
    """What is over the limit spoils its family; what came before stands."""
    found = parse(b'a 1\nb{x="1"} 1\nb{x="2"} 1\nc 1\n', limits=Limits(series=2))

    assert found.samples.keys() == {"a"}
    assert found.skipped == {Skip.TOO_MANY_SERIES: 2}


def test_bytes_that_are_no_utf8_are_counted() -> None:
    """The rest is read."""
    found = parse(b'a{x="\xff\xfe"} 1\n')

    assert found.samples["a"][0].value == 1.0
    assert found.skipped == {Skip.NOT_UTF8: 2}


@pytest.mark.parametrize(
    ("body", "content_type", "whole"),
    [
        (b"a 1\n", "", True),
        (b"a 1\n", "text/plain; version=0.0.4", True),
        (b"a 1", "", False),
        (b"a 1\r\n", "", True),
        (b"a_total 1\n# EOF\n", "", True),
        (b"a_total 1\n# EOF", "", True),
        (b"a_total 1\n", "application/openmetrics-text; version=1.0.0", False),
        (b"a_total 1\n# EO", "application/openmetrics-text; version=1.0.0", False),
        (b"# TYPE a counter\na_total 1\n", "", False),
        (b"# TYPE v:a counter\nv_a_total 1\n", "", False),
        (b"# TYPE a counter\na 1\n", "", True),
        (b"# TYPE a_total counter\na_total 1\n", "", True),
    ],
)
def test_recognises_a_cut_body(body: bytes, content_type: str, whole: bool) -> None:
    """Text ends in a newline, OpenMetrics in `# EOF`; which of them it is shows in the TYPE of its counters."""
    assert parse(body, content_type=content_type).whole is whole


def test_lines_behind_the_end_are_counted() -> None:
    """Nothing after `# EOF` is read."""
    found = parse(b"a 1\n# EOF\nb 2\n\nc 3\n")

    assert found.samples.keys() == {"a"}
    assert found.skipped == {Skip.AFTER_END: 2}


def test_a_body_over_the_limit_is_cut() -> None:
    """And is said to be."""
    assert not parse(b"a 1\nb 2\n", limits=Limits(body_bytes=4)).whole


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(body: bytes) -> None:
    """Nothing that a server sends raises."""
    found = parse(body)

    assert all(isinstance(sample.value, float) for samples in found.samples.values() for sample in samples)


_TEXT = st.text(st.sampled_from('ab"\\\n{}, =#é1'), max_size=8)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b:c", "d_total"]),
            st.dictionaries(st.sampled_from(["x", "y", "le"]), _TEXT, max_size=3),
            st.floats(allow_nan=False),
        ),
        unique_by=lambda row: (row[0], frozenset(row[1].items())),
        max_size=8,
    )
)
def test_agrees_with_prometheus_client(rows: list[tuple[str, dict[str, str], float]]) -> None:
    """Whatever can be written is read as the reference implementation reads it."""
    body = "".join(f"{name}{_block(labels)} {value!r}\n" for name, labels, value in rows)

    ours = {
        (name, frozenset(sample.labels.items())): sample.value
        for name, samples in parse(body.encode()).samples.items()
        for sample in samples
    }
    theirs = {
        (normalise(sample.name), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert ours == theirs == {(normalise(n), frozenset(labels.items())): value for n, labels, value in rows}


def _block(labels: dict[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""
