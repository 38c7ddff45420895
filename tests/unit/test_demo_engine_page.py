"""The simulated engine speaks as the real one does: its page is held against a capture of vLLM 0.32.0."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tidegate.demo.engine_model import Arrival, Engine, EngineSpec
from tidegate.demo.engine_page import Page

START = 1_800_000_000.0
TOKENS = re.compile(r"vllm:request_\w*_?tokens_bucket")


def loaded() -> str:
    engine = Engine(EngineSpec(), START)
    for k in range(50):
        engine.accept(Arrival(k, START + k, 900, 50 + k, 0, 640))
    engine.advance(START + 30)
    return Page("demo-30b").render(engine)


def shape(body: str) -> set[str]:
    """Every line without its value and without the model's name."""
    lines = set()
    for line in body.splitlines():
        text = line if line.startswith("#") else line.rsplit(" ", 1)[0]
        lines.add(re.sub(r'model_name="[^"]*"', 'model_name="M"', text))
    return lines


def test_every_line_is_one_that_vllm_writes(shared: Path) -> None:
    """Names, labels, label order, help texts, types and bucket bounds; the bounds of token counts follow the model."""
    real = shape((shared / "captures" / "vllm-0.32.0" / "load-b.prom").read_text())
    strange = {line for line in shape(loaded()) - real if not TOKENS.match(line)}
    assert strange == set()


def test_families_stand_in_the_order_of_vllm(shared: Path) -> None:
    """A reader that learnt the order by heart is not surprised."""
    real = (shared / "captures" / "vllm-0.32.0" / "load-b.prom").read_text()
    names = re.findall(r"^# TYPE (\S+)", loaded(), re.M)
    order = [name for name in re.findall(r"^# TYPE (\S+)", real, re.M) if name in names]
    assert names == order


def test_the_page_parses_and_its_histograms_are_whole() -> None:
    """prometheus-client reads it; buckets ascend to the count."""
    families = {family.name: family for family in text_string_to_metric_families(loaded())}
    ttft = families["vllm:time_to_first_token_seconds"]
    counts = [sample.value for sample in ttft.samples if sample.name.endswith("_bucket")]
    total = next(sample.value for sample in ttft.samples if sample.name.endswith("_count"))
    assert counts == sorted(counts)
    assert counts[-1] == total > 0
