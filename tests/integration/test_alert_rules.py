"""The alert rules for Prometheus: sound, tested, in both languages, and about nothing but metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.expose.families import FAMILIES, Kind, Role

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "dashboards" / "rules" / "tidegate-agent.rules.yaml"
TESTS = sorted((Path(__file__).parent / "rules").glob("*.test.yaml"))
SCRAPE_LABELS = {"instance", "job"}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def every_rule() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in every_rule() if "alert" in rule}
RECORDED = {rule["record"] for rule in every_rule() if "record" in rule}


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    run = promtool("check", "rules", RULES)
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
@pytest.mark.timeout(180)
def test_the_rules_pass_their_unit_tests() -> None:
    run = promtool("test", "rules", *TESTS)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_alert_is_seen_to_fire_in_a_test() -> None:
    tests = [each for file in TESTS for each in yaml.safe_load(file.read_text())["tests"]]
    cases = [case for each in tests for case in each["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == set(ALERTS)


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric of an expression with the labels that are asked of it."""
    for name, matchers in re.findall(r"\b(tidegate_[a-z0-9_]+)\b(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]~?", matchers))


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_uses_only_what_agents_export(rule: dict[str, Any]) -> None:
    expression = rule["expr"]
    for recorded in RECORDED:
        expression = expression.replace(recorded, "")
    names = list(used(expression))
    assert names or RECORDED & set(rule["expr"].split()) or "up{" in expression
    for name, labels in names:
        family = FAMILIES.get(name)
        assert family is not None, f"{name} is not in expose/families.py"
        assert family.of(Role.AGENT)
        assert labels <= {*family.labels, *SCRAPE_LABELS}
        counted = re.search(rf"(increase|rate|resets)\({name}\b", expression)
        assert (family.kind is Kind.COUNTER) == bool(counted), f"{name} is a {family.kind}"


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_in_both_languages_what_is_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert re.fullmatch(r"Tidegate[A-Z]\w+", name)
    assert rule["labels"]["severity"] in {"page", "warning"}
    words = rule["annotations"]
    assert set(words) == {"summary", "summary_zh", "description"}
    assert re.search(r"[\u4e00-\u9fff]", words["summary_zh"])
    shown = [set(re.findall(r"\$(?:labels\.)?\w+", words[key])) for key in ("summary", "summary_zh")]
    assert shown[0] == shown[1]


def test_every_alert_stands_in_the_documentation() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    assert [name for name in ALERTS if f"`{name}`" not in page] == []
    assert [name for name in re.findall(r"`(Tidegate\w+)`", page) if name not in ALERTS] == []


def test_the_program_prints_and_writes_the_rules(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["dashboards", "rules/tidegate-agent.rules.yaml"])
    assert printed.exit_code == 0
    assert yaml.safe_load(printed.stdout) == yaml.safe_load(RULES.read_text())
    written = CliRunner().invoke(app, ["dashboards", "--output", str(tmp_path)])
    assert written.exit_code == 0
    assert (tmp_path / "rules" / RULES.name).read_bytes() == RULES.read_bytes()
