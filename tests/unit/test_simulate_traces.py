"""A trace is known by its columns, and a bad line is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tidegate.simulate.log import BadTrace
from tidegate.simulate.traces import drawn, overlaid, read_trace, thinned, uncached
from tidegate.simulate.worlds import of_trace, small_morning

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:50.9951690,396,109",
]
MOONCAKE = [
    json.dumps({"timestamp": 0, "input_length": 1500, "output_length": 5, "hash_ids": [1, 2, 3]}),
    json.dumps({"timestamp": 2500, "input_length": 1600, "output_length": 6, "hash_ids": [1, 2, 4]}),
]
SERVEGEN = ["t_s,rate_rps,cv,mean_input_tokens,mean_output_tokens", "0,19,2.1,355.4,292.5", "600,9.5,1.5,364.9,285.5"]


def test_azure() -> None:
    trace = read_trace(AZURE)
    assert (trace.kind, trace.seconds) == ("azure", pytest.approx(4.314579))
    block = next(overlaid(trace, 2, 7.0)(np.random.default_rng(0)))
    assert block.at.tolist() == pytest.approx([0, 4.314579, 7, 11.314579])
    assert block.prompt.tolist() == [374, 396, 374, 396]


def test_mooncake_with_the_hits_its_blocks_tell_of() -> None:
    trace = read_trace(MOONCAKE)
    assert trace.requests.at.tolist() == [0.0, 2.5]
    assert trace.requests.cached.tolist() == [0, 1024]
    traffic = uncached(thinned(trace, 1, 1))
    assert next(traffic(np.random.default_rng(0))).cached.tolist() == [0, 0]


def test_servegen_is_drawn_at_its_rate() -> None:
    trace = read_trace(SERVEGEN)
    assert trace.seconds == 1200
    blocks = list(drawn(trace.windows, 9.5)(np.random.default_rng(1)))
    assert [len(block.at) for block in blocks] == [pytest.approx(1200, rel=0.2), pytest.approx(600, rel=0.25)]
    assert blocks[0].prompt.mean() == pytest.approx(355, rel=0.15)
    assert blocks[1].at.min() >= 600
    assert blocks[1].at.max() < 1200


def test_a_log_of_observations() -> None:
    signals = {"prompt_tps": 2000.0, "generation_tps": 400.0, "request_rate": 2.0}
    row = {
        "now": 100.0,
        "gateway": {"waiting": 0, "arrival_rps": None},
        "pools": {"base": {"replicas": [{"signals": signals}, {"signals": None}, {"signals": signals}]}},
    }
    dark = row | {"now": 115.0, "pools": {"base": {"replicas": [{"signals": None}]}}}
    trace = read_trace([json.dumps(row), json.dumps(dark), json.dumps(row | {"now": 130.0})])
    assert [(window.at, window.rate, window.prompt, window.out) for window in trace.windows] == [
        (0.0, 4.0, 1000.0, 200.0),
        (30.0, 4.0, 1000.0, 200.0),
    ]


def test_a_log_of_figures_adds_its_pools_up() -> None:
    def row(pool: str, prompt: float | None) -> str:
        figures = {"at": "2026-11-25T12:00:00+00:00", "pool": pool, "prompt_tokens_per_second": prompt}
        return json.dumps(figures | {"generation_tokens_per_second": 300.0})

    (window,) = read_trace([row("base", 3000.0), row("burst", 1000.0), row("other", None)]).windows
    assert (window.rate, window.prompt, window.out) == (4.0, 1000.0, 150.0)
    assert of_trace(read_trace([row("base", 3000.0)])).name == "log"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "line 1: neither"),
        (["a,b", "1,2"], "line 1: neither"),
        ([AZURE[0]], "no request"),
        ([*AZURE, "yesterday,1,2"], "entry 3: ValueError"),
        ([*AZURE, "2023-11-16 18:15:46.6805900,many,2"], "entry 3"),
        ([SERVEGEN[0], "0,nan,1,1,1"], "entry 1: ValueError: nan is not a number"),
        ([SERVEGEN[0]], "no window"),
        ([MOONCAKE[0], '{"timestamp": 1}'], "entry 2: KeyError"),
        ([MOONCAKE[0], "{"], "entry 2"),
        (['{"now": 1, "pools": {"base": {}}}'], "line 1: KeyError"),
        (['{"at": 1, "pool": "base"}'], "no tick with a known load"),
    ],
)
def test_what_cannot_be_played_is_named(lines: list[str], said: str) -> None:
    with pytest.raises(BadTrace, match=said):
        read_trace(lines)


def test_the_public_traces(shared: Path) -> None:
    folder = shared / "traces"
    with gzip.open(folder / "azure_2023_conv.csv.gz", "rt") as lines:
        assert len(read_trace(lines).requests.at) == 19_366
    with gzip.open(folder / "mooncake_conversation.jsonl.gz", "rt") as lines:
        assert len(read_trace(lines).requests.at) == 12_031
    with (folder / "servegen_m-large.csv").open() as lines:
        trace = read_trace(lines)
    assert (len(trace.windows), trace.seconds) == (2016, 14 * 86400)
    cut = of_trace(trace, (2.0, 3.0))
    assert (cut.name, cut.seconds) == ("m-large days 2 to 3", 86400)


def test_the_small_morning_is_three_hours() -> None:
    assert small_morning().seconds == 3 * 3600
