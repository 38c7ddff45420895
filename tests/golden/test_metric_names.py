"""Our metric names and what they say are a contract: golden files, a linter from outside, and two parsers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from fakes.agent_snapshot import busy_host
from golden.regenerate import HOW, OPENMETRICS, expected
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tidegate.expose.agent_metrics import AgentCollector
from tidegate.expose.exposition import render
from tidegate.expose.families import FAMILIES, Family, Kind, Role

GOLDEN = list(expected())
Sample = tuple[str, tuple[tuple[str, str], ...], float]


@pytest.mark.parametrize(("path", "text"), GOLDEN, ids=[path.name for path, _ in GOLDEN])
def test_golden_files_and_the_document_are_current(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, HOW


def test_promtool_finds_nothing_to_say_about_the_exposition() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is absent (Debian package: prometheus)")
    body, _ = render(AgentCollector(busy_host))

    said = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)

    assert (said.returncode, said.stdout + said.stderr) == (0, b"")


def samples(families: list[Metric]) -> list[Sample]:
    return [(s.name, tuple(sorted(s.labels.items())), s.value) for family in families for s in family.samples]


def test_both_formats_say_the_same_and_no_series_twice() -> None:
    collector = AgentCollector(busy_host)
    text = samples(list(parse_text(render(collector)[0].decode())))
    openmetrics = samples(list(parse_openmetrics(render(collector, OPENMETRICS)[0].decode())))

    assert sorted(text) == sorted(openmetrics)
    series = [(name, labels) for name, labels, _ in text]
    assert len(series) == len(set(series))


def test_the_golden_host_shows_every_family_of_the_agent() -> None:
    """So that no family is declared and then forgotten."""
    shown = {metric.name for metric in AgentCollector(busy_host).collect()}

    declared = {name.removesuffix("_total") for name, family in FAMILIES.items() if family.of(Role.AGENT)}
    assert declared == shown


@pytest.mark.parametrize("family", list(FAMILIES.values()), ids=list(FAMILIES))
def test_names_follow_the_conventions(family: Family) -> None:
    assert family.name.startswith("tidegate_")
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    assert family.help.endswith(".")
    assert len(family.labels) == len(set(family.labels))
    assert not {"le", "quantile", "instance"} & set(family.labels)
