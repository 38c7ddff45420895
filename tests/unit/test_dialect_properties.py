"""Whatever a page says, no dialect raises, and no figure of it is negative, infinite or a zero out of nothing."""

from __future__ import annotations

import json as json_module
import math

from fakes.engine_pages import json, text
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.reading import EngineKind, Missing
from tidegate.observe.body import Origin
from tidegate.observe.engines import DIALECTS

_NAMES = sorted(set().union(*(dialect.wanted for dialect in DIALECTS.values())))
_LABELS = (
    "model",
    "worker",
    "rank",
    "outcome",
    "status",
    "error_type",
    "reason",
    "request_type",
    "le",
    "engine",
    "pid",
)
_VALUES = st.one_of(st.integers(-5, 10**9), st.sampled_from(["NaN", "+Inf", "-Inf", "1e+06", "x", "0.5"]))
_SAMPLES = st.tuples(
    st.sampled_from(_NAMES),
    st.dictionaries(
        st.sampled_from(_LABELS), st.sampled_from(["a", "0", "1", "error", "ensemble", "+Inf"]), max_size=3
    ),
    _VALUES,
)


def _line(name: str, labels: dict[str, str], value: object) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}\n"


@given(st.lists(_SAMPLES, max_size=12), st.sampled_from([None, *EngineKind]))
def test_no_page_yields_a_figure_that_is_none(
    samples: list[tuple[str, dict[str, str], object]], kind: EngineKind
) -> None:
    """Declared as anything, or detected."""
    reading = text("".join(_line(*sample) for sample in samples), origin=Origin(kind=kind))
    numbers = [value for value in reading.gauges.values() if not isinstance(value, Missing)]
    numbers += reading.counters.values()

    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    for histogram in reading.histograms.values():
        assert math.isinf(histogram.bounds[-1])
        assert len(histogram.bounds) == len(histogram.counts)


_KEYS = (
    *("iter", "numActiveRequests", "numQueuedRequests", "kvCacheStats", "usedNumBlocks", "maxNumBlocks"),
    *("reusedBlocks", "missedBlocks", "attentionDpRank", "error", "code"),
)
_ROWS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.just(10**400), st.text(max_size=3)),
    lambda inner: st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=6,
)


@given(st.one_of(st.lists(_ROWS, max_size=2), _ROWS))
def test_no_document_yields_a_figure_that_is_none(document: object) -> None:
    """Rows of iteration statistics, errors, and what looks like them."""
    reading = json(json_module.dumps(document))
    numbers = [value for value in reading.gauges.values() if not isinstance(value, Missing)]
    numbers += reading.counters.values()

    assert all(math.isfinite(number) and number >= 0 for number in numbers)
