"""The parser that remembers: body after body it says what a fresh one says, and it does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.observe.exposition import Exposition
from tidegate.observe.labels import Labels, Skip
from tidegate.observe.textformat import LayoutParser, Limits, parse

_PAGE = (Path(__file__).parents[1] / "captures/two-ranks-b.prom").read_bytes()


def said(found: Exposition) -> tuple[object, ...]:
    """All of it, as plain values."""
    samples = {
        name: [(dict(sample.labels), repr(sample.value)) for sample in found.samples[name]] for name in found.samples
    }
    return samples, found.present, found.spoiled, dict(found.skipped), found.last, found.whole


_LINES = st.sampled_from(
    [
        'a{x="1"} 1',
        'a{x="1"} 2',
        'a{x="2",y="b c"} 3',
        'a{y="b c",x="2"} 4',
        'a{x="} 9"} 4',
        'a{x="1",y="} 2"} 3',
        'a{x="1"} 1_0',
        'a{x="1"} ١',
        'a{x="1"} one',
        'a{x="1"} ',
        'a{x="1"}',
        'a{x="1"}1',
        'a{x="1"} 5\t1700000000',
        'a{x="1"} 5 1700000000',
        'a{x="1"} 5 # {t="1"} 1',
        'a {x="1"} 6',
        "a 7",
        "a",
        "a{} 8",
        "b:c 1",
        'b_c{x="1"} 1\r',
        'b.c{x="1"} 2',
        '{"b.c",x="1"} 3',
        '{"a b"} 1',
        'a b{x="1"} 1',
        "# HELP a {",
        "# EOF",
        "",
        "é 1",
    ]
)
_BODIES = st.lists(st.lists(_LINES, max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines)), max_size=4)


@given(
    _BODIES,
    st.sampled_from([None, frozenset({"a"}), frozenset({"b_c"})]),
    st.sampled_from([Limits(), Limits(series=2)]),
)
def test_what_is_remembered_changes_nothing(bodies: list[str], wanted: frozenset[str] | None, limits: Limits) -> None:
    """Whatever came before, a body says what it says alone."""
    parser = LayoutParser(wanted, limits)

    for body in bodies:
        assert said(parser.parse(body.encode())) == said(parse(body.encode(), wanted, limits=limits))


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_after_any_bytes(bodies: list[bytes]) -> None:
    """Nor do bytes of any kind leave a trace."""
    parser = LayoutParser()

    for body in (*bodies, _PAGE):
        assert said(parser.parse(body)) == said(parse(body))


def test_label_sets_stay_one_object_while_bodies_agree() -> None:
    """So what is derived of them is derived once, not at every scrape."""
    asked: list[int] = []

    def count(sets: Sequence[Labels], times: int) -> int:
        asked.append(len(sets))
        return times * len(sets)

    parser = LayoutParser()
    for value in (1, 2, 3):
        found = parser.parse(f'a{{x="1"}} {value}\na{{x="2"}} {value}\n'.encode()).samples["a"]
        assert (found.labels.derive(count, 3), found[0].value, found[-1].value) == (6, value, value)
    assert asked == [2]

    assert parser.parse(b'a{x="2"} 1\n').samples["a"].labels.derive(count, 1) == 1


def test_samples_are_a_sequence() -> None:
    """By place, by slice, and in order."""
    found = parse(b'a{x="1"} 1\na{x="2"} 2\na{x="3"} 3\n').samples["a"]

    assert [sample.value for sample in found] == [1.0, 2.0, 3.0]
    assert [sample.labels["x"] for sample in found[1:]] == ["2", "3"]
    assert (len(found), found[1].value, found[1] in found) == (3, 2.0, True)


def test_labels_that_change_with_every_body_do_not_pile_up() -> None:
    """vLLM's LoRA families write a new label each time."""
    parser = LayoutParser()
    for number in range(500):
        parser.parse(f'a{{x="{number}"}} 1\n'.encode())

    assert len(parser._labels.known) < 100
    assert len(parser._labels._by_pairs) < 100


@pytest.mark.parametrize("times", [1, 2])
def test_the_limit_of_series_holds_however_well_they_are_known(times: int) -> None:
    """Known labels are quick to read, not exempt."""
    parser = LayoutParser(limits=Limits(series=3))
    small = b'a{x="1"} 1\na{x="2"} 1\na{x="3"} 1\n'
    for _ in range(times):
        assert parser.parse(small).skipped == {}

    found = parser.parse(small + small.replace(b"a{", b"b{"))

    assert found.samples.keys() == {"a"}
    assert found.skipped == {Skip.TOO_MANY_SERIES: 3}
