"""Pages of real engines: the figures that are known to be true of them, and the states of those that are not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegate.model.figures import Figure, figures
from tidegate.model.reading import (
    Counter,
    EngineKind,
    EngineName,
    EngineReading,
    EngineState,
    Gap,
    Gauge,
    Missing,
    Number,
    Rank,
)
from tidegate.model.window import EngineWindow, engine_window
from tidegate.observe.body import read_body
from tidegate.observe.engines import WANTED
from tidegate.observe.textformat import normalise, parse

_AT = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
_SMALL = Path(__file__).parents[1] / "captures"
_VLLM_PAIRS = ("vllm-0.32.0/load", "vllm-0.32.0-dp2/load", "vllm-0.32.0-pd/prefill", "vllm-0.32.0-pd/decode")
_VLLM_SINGLES = ("idle", "after-load", "after-restart", "frozen-1", "openmetrics")


def read(path: Path, seconds: float = 0.0) -> EngineReading:
    return read_body(EngineName("e"), path.read_bytes(), _AT + timedelta(seconds=seconds))


def window(*readings: EngineReading) -> EngineWindow:
    found = engine_window(readings)
    assert isinstance(found, EngineWindow)
    return found


@dataclass(frozen=True, slots=True)
class Pair:
    first: EngineReading
    second: EngineReading
    truth: dict[str, Any]


_SGLANG_PAIRS = ("sglang-0.5.23/load",)
_OTHER_PAIRS = ("llama.cpp-b11434/load",)


@pytest.fixture(params=(*_VLLM_PAIRS, *_SGLANG_PAIRS, *_OTHER_PAIRS))
def pair(request: pytest.FixtureRequest, shared: Path) -> Pair:
    captures = shared / "captures"
    known = json.loads((captures / "truth.json").read_text())[request.param]
    return Pair(
        read(captures / f"{request.param}-a.prom"),
        read(captures / f"{request.param}-b.prom", known["interval"]),
        known["truth"],
    )


def test_the_figures_of_a_real_pair_are_the_true_ones(pair: Pair) -> None:
    """Within 1 %, quantiles within 2 %; what is null there is missing here."""
    found = figures([pair.first, pair.second])

    assert pair.second.kind == pair.truth["engine"]
    wrong = {
        name: (found[Figure(name)], true)
        for name, true in pair.truth.items()
        if name != "engine" and not _agrees(found[Figure(name)], true, 0.02 if "_p" in name else 0.01)
    }
    assert wrong == {}


def _agrees(found: Number, true: float | None, tolerance: float) -> bool:
    if true is None or isinstance(found, Missing):
        return true is None and isinstance(found, Missing)
    return found == pytest.approx(true, rel=tolerance)


def test_a_real_pair_gives_no_problem(pair: Pair) -> None:
    """Nothing is skipped, doubted or lost."""
    found = window(pair.first, pair.second)

    assert (pair.first.problems, pair.second.problems) == ((), ())
    assert (found.partial, found.progressing, found.notes) == (False, True, ())
    assert pair.second.hints[0] in ("vLLM >= 0.32", "SGLang >= 0.5.23", "prompt tokens without those from the cache")
    assert pair.second.model == (None if pair.second.kind is EngineKind.LLAMA_CPP else "tiny")


def test_ranks_are_kept_apart(shared: Path) -> None:
    """Two data parallel ranks in one page."""
    found = read(shared / "captures/vllm-0.32.0-dp2/load-b.prom")

    assert {rank for _, rank in found.gauges} == {rank for _, rank in found.counters} == {"0", "1"}
    assert found.started is None


def test_gauges_that_do_not_exist_yet_are_not_zero(shared: Path) -> None:
    """With several processes the page has no gauge before the first request."""
    found = figures([read(shared / "captures/vllm-0.32.0-dp2/load-a.prom")])

    assert found[Figure.RUNNING] == found[Figure.QUEUE_DEPTH] == Missing(Gap.NOT_SUPPORTED)


@pytest.mark.parametrize("name", _VLLM_SINGLES)
def test_one_page_gives_gauges_and_no_rate(name: str, shared: Path) -> None:
    """An idle engine's zeros are zeros; what needs two looks says so."""
    reading = read(shared / f"captures/vllm-0.32.0/{name}.prom")
    found = figures([reading])

    assert (reading.kind, reading.state, reading.problems) == (EngineKind.VLLM, EngineState.READY, ())
    assert {found[Figure.RUNNING], found[Figure.QUEUE_DEPTH]} == ({5.0, 10.0} if "frozen" in name else {0.0})
    assert {found[name] for name in _RATES} == {Missing(Gap.ONE_SCRAPE)}


_GAUGES = (Figure.RUNNING, Figure.QUEUE_DEPTH, Figure.KV_CACHE_USAGE)
_RATES = (
    Figure.KV_CACHE_HIT_RATE,
    Figure.KV_CACHE_HIT_RATE_DEVICE,
    Figure.PROMPT_TOKENS_PER_SECOND,
    Figure.GENERATION_TOKENS_PER_SECOND,
    Figure.FINISHED,
    Figure.PREEMPTIONS,
    Figure.TTFT_P95,
    Figure.TTFT_MEAN,
)


def test_a_restart_gives_lower_bounds_and_nothing_negative(shared: Path) -> None:
    """The second process has counted 21 requests since its start."""
    readings = [
        read(shared / "captures/vllm-0.32.0/after-load.prom"),
        read(shared / "captures/vllm-0.32.0/after-restart.prom", 15.0),
    ]
    found = figures(readings)

    assert window(*readings).notes == ("lower bounds: the engine restarted",)
    assert window(*readings).partial
    assert found[Figure.FINISHED] == 21.0
    assert all(isinstance(value, Missing) or value >= 0 for value in found.values())


def test_a_frozen_engine_is_not_progressing(shared: Path) -> None:
    """It answers 200, and its gauges stand still."""
    readings = [
        read(shared / "captures/vllm-0.32.0/frozen-1.prom"),
        read(shared / "captures/vllm-0.32.0/frozen-2.prom", 15.0),
    ]
    found = figures(readings)

    assert not window(*readings).progressing
    assert {found[name] for name in _GAUGES} == {Missing(Gap.STALE)}


def test_a_frozen_sglang_says_zero_and_is_not_progressing(shared: Path) -> None:
    """Its scheduler stopped before it told of the twelve requests that the web server holds."""
    readings = [
        read(shared / "captures/sglang-0.5.23/frozen-1.prom"),
        read(shared / "captures/sglang-0.5.23/frozen-2.prom", 15.0),
    ]
    found = figures(readings)

    assert figures(readings[:1])[Figure.RUNNING] == 0.0
    assert not window(*readings).progressing
    assert {found[name] for name in _GAUGES} == {Missing(Gap.STALE)}
    assert found[Figure.HELD] == 12.0


def test_sglangs_generated_tokens_are_decoded_ones_and_first_ones(shared: Path) -> None:
    """262.782 decoded a second; each of the requests that got a first token got it from prefill."""
    pages = [(shared / f"captures/sglang-0.5.23/load-{which}.prom").read_bytes() for which in "ab"]
    decoded, firsts = (
        sum(sample.value for sample in after if _is_counted(sample.labels))
        - sum(sample.value for sample in before if _is_counted(sample.labels))
        for before, after in (
            (parse(pages[0]).samples[name], parse(pages[1]).samples[name])
            for name in ("sglang_realtime_tokens_total", "sglang_time_to_first_token_seconds_count")
        )
    )
    readings = [read_body(EngineName("e"), page, _AT + timedelta(seconds=15.001 * n)) for n, page in enumerate(pages)]

    assert decoded / 15.001 == pytest.approx(262.782, rel=1e-4)
    assert figures(readings)[Figure.GENERATION_TOKENS_PER_SECOND] == pytest.approx((decoded + firsts) / 15.001)


def _is_counted(labels: Mapping[str, str]) -> bool:
    return labels.get("mode", "decode") == "decode"


@pytest.mark.parametrize("name", ["idle", "after-load", "dp2", "openmetrics", "frozen-1"])
def test_one_page_of_sglang_gives_gauges_and_no_rate(name: str, shared: Path) -> None:
    """A NaN and negative gauges are in it, none that is read; before the first request there is nothing to finish."""
    reading = read(shared / f"captures/sglang-0.5.23/{name}.prom")
    found = figures([reading])

    assert (reading.kind, reading.state, reading.problems) == (EngineKind.SGLANG, EngineState.READY, ())
    assert {found[Figure.RUNNING], found[Figure.QUEUE_DEPTH], found[Figure.KV_CACHE_USAGE]} == {0.0}
    assert found[Figure.PROMPT_TOKENS_PER_SECOND] == Missing(Gap.ONE_SCRAPE)
    expected = Gap.NOT_SUPPORTED if name == "idle" else Gap.ONE_SCRAPE
    assert found[Figure.FINISHED] == found[Figure.TTFT_P95] == Missing(expected)


def test_sglangs_ranks_are_kept_apart(shared: Path) -> None:
    """Two data parallel ranks; the tokenizer, which knows none, counts under the first."""
    found = read(shared / "captures/sglang-0.5.23/dp2.prom")

    assert {rank for name, rank in found.gauges if name is Gauge.RUNNING} == {"0", "1"}
    assert found.counters[Counter.CACHE_QUERIES, Rank("0")] == 1825.0 + 5284.0
    assert found.counters[Counter.CACHE_QUERIES, Rank("1")] == 1623.0 + 5591.0
    assert found.counters[Counter.GENERATION_TOKENS, Rank("1")] == 1155.0
    assert {rank for name, rank in found.counters if name is Counter.FINISHED} == {"0"}


def test_statistics_that_are_off_are_disabled(shared: Path) -> None:
    """With the flag to leave out."""
    found = read(shared / "captures/vllm-0.32.0/stats-off.prom")

    assert (found.kind, found.state) == (None, EngineState.DISABLED)
    assert "--disable-log-stats" in found.problems[0]
    assert set(figures([found]).values()) == {Missing(Gap.DISABLED)}


def test_a_refusal_says_what_to_do(shared: Path) -> None:
    """llama.cpp without --metrics."""
    found = read(shared / "captures/llama.cpp-b11434/metrics-off.json")

    assert found.state is EngineState.DISABLED
    assert "--metrics" in found.problems[0]


def test_the_parser_agrees_with_prometheus_client_on_every_page(shared: Path) -> None:
    """Every sample, name, label and value; NaN is NaN."""
    for page in sorted((shared / "captures").glob("*/*.prom")):
        ours = {
            (name, frozenset(sample.labels.items())): repr(sample.value)
            for name, samples in parse(page.read_bytes()).samples.items()
            for sample in samples
        }
        theirs = {
            (normalise(sample.name), frozenset(sample.labels.items())): repr(float(sample.value))
            for family in text_string_to_metric_families(page.read_text())
            for sample in family.samples
        }
        if "llama.cpp" in str(page):  # it declares a counter without `_total`, which prometheus_client then appends
            theirs = {(_LLAMA.get(name, name), labels): value for (name, labels), value in theirs.items()}
        assert ours == theirs, page


_LLAMA = {"llamacpp_n_tokens_max_total": "llamacpp_n_tokens_max"}


@pytest.mark.parametrize(
    "name", ["vllm-0.32.0/load-b.prom", "vllm-0.32.0-dp2/load-b.prom", "vllm-0.32.0/openmetrics.prom"]
)
def test_a_real_page_cut_anywhere_gives_no_number_of_its_own(name: str, shared: Path) -> None:
    """Every line's end, and places within lines."""
    whole = (shared / "captures" / name).read_bytes()
    full = read_body(EngineName("e"), whole, _AT)
    ends = [end + 1 for end, byte in enumerate(whole) if byte == 10]

    for end in [*ends[:-1:3], *range(7, len(whole), 1009)]:
        found = read_body(EngineName("e"), whole[:end], _AT)
        given = {key: value for key, value in found.gauges.items() if not isinstance(value, Missing)}
        assert given.items() <= full.gauges.items(), end
        assert found.counters.items() <= full.counters.items(), end
        assert found.histograms.items() <= full.histograms.items(), end


def test_only_a_third_of_a_page_is_looked_at(shared: Path) -> None:
    """The filter is what makes a scrape cheap: if it stops filtering, this says so."""
    body = (shared / "captures/vllm-0.32.0/load-b.prom").read_bytes()

    read_samples = sum(map(len, parse(body, WANTED).samples.values()))

    assert 0 < read_samples < sum(map(len, parse(body).samples.values())) / 2


# Hand-written pages, always there


def test_the_figures_of_the_small_pair() -> None:
    """In ten seconds: 2000 prompt tokens of which half from the cache, 500 generated, ten requests finished.

    TTFT: 8 of 10 within 0.1 s, all within 1 s; so the median is 0.1 * 5 / 8, and p95 0.1 + 0.9 * 1.5 / 2.
    """
    readings = [read(_SMALL / "two-ranks-a.prom"), read(_SMALL / "two-ranks-b.prom", 10.0)]
    found = {name: value for name, value in figures(readings).items() if not isinstance(value, Missing)}

    assert found == pytest.approx(
        {
            "queue_depth": 3.0,
            "running": 8.0,
            "kv_cache_usage": 0.75,
            "kv_cache_usage_mean": 0.4375,
            "rank_imbalance": 1.4,
            "kv_cache_hit_rate": 0.5,
            "kv_cache_hit_rate_device": 0.5,
            "prompt_tokens_per_second": 200.0,
            "cached_tokens_per_second": 100.0,
            "computed_tokens_per_second": 100.0,
            "generation_tokens_per_second": 50.0,
            "preemptions": 2.0,
            "finished": 10.0,
            "aborted": 1.0,
            "errors": 0.0,
            "http_errors": 0.0,
            "ttft_mean": 0.225,
            "ttft_p50": 0.0625,
            "ttft_p90": 0.55,
            "ttft_p95": 0.775,
            "ttft_p99": 0.955,
        }
    )
    assert window(*readings).notes == ()
