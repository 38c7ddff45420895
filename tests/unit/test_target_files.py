"""Engines from files in Prometheus' format: what they mean, what is refused, and the last good list that stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.vocabulary import EngineKind, TrafficClass
from tidegate.observe.target_files import BadList, TargetFiles, parse

GOOD = """
- targets: ["127.0.0.1:8000", "gpu-1:8001", "[::1]:8002"]
  labels: { pool: base, service: chat, gpus: "2", team: search }
- targets: ["127.0.0.1:30000"]
  labels: { kind: sglang, traffic: test, engine: canary, __scheme__: https, __metrics_path__: /m }
- targets: []
"""
BAD = {
    "no list": ("a: b", "must be a list of groups"),
    "no YAML": ("- [", "line 1: is not YAML"),
    "no group": ("- a", "group 1: must have `targets` and `labels`, and nothing else"),
    "another key": ("- {targets: [], lables: {}}", "group 1: must have `targets` and `labels`, and nothing else"),
    "no targets": ("- {labels: {}}", "group 1: targets must be a list of texts"),
    "a number": ("- {targets: ['h:1'], labels: {gpus: 2}}", "group 1: labels must be texts (write numbers in quotes)"),
    "no port": ("- {targets: ['h']}", "group 1, target 'h': must be host:port"),
    "a whole address": ("- {targets: ['http://h:1/m']}", "must be host:port"),
    "a user": ("- {targets: ['u@h:1']}", "must be host:port"),
    "another scheme": ("- {targets: ['h:1'], labels: {__scheme__: ftp}}", "must be host:port"),
    "an unknown kind": ("- {targets: ['h:1'], labels: {kind: gpt}}", "'gpt' is none of vllm, "),
    "no GPUs": ("- {targets: ['h:1'], labels: {gpus: '0'}}", "gpus must be a whole number, 1 to 128"),
    "one name for two": ("- {targets: ['h:1', 'h:2'], labels: {engine: e}}", "the label engine names one engine"),
    "no name": ("- {targets: ['h:1'], labels: {pool: 'a b'}}", "pool is 'a b', which is no name"),
    "one twice": ("- {targets: ['h:1', 'h:1']}", "names an engine twice"),
}


def test_groups_become_engines() -> None:
    first, second, third, canary = parse(GOOD, is_json=False)
    assert [each.name for each in (first, second, third, canary)] == [
        "127.0.0.1:8000",
        "gpu-1:8001",
        "ip::1:8002",
        "canary",
    ]
    assert first.url == "http://127.0.0.1:8000/metrics"
    assert third.url == "http://[::1]:8002/metrics"
    assert (first.pool, first.service, first.gpus, first.kind) == ("base", "chat", 2, None)
    assert (canary.url, canary.kind, canary.traffic) == (
        "https://127.0.0.1:30000/m",
        EngineKind.SGLANG,
        TrafficClass.TEST,
    )


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_a_bad_list_is_refused_as_a_whole(text: str, said: str) -> None:
    with pytest.raises(BadList) as refused:
        parse("- {targets: ['127.0.0.1:9']}\n" * 0 + text, is_json=False)
    assert said in str(refused.value)


def test_json_is_read_as_well() -> None:
    (target,) = parse(json.dumps([{"targets": ["127.0.0.1:8000"]}]), is_json=True)
    assert target.name == "127.0.0.1:8000"
    with pytest.raises(BadList, match="line 2: is not JSON"):
        parse("[\n", is_json=True)


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    for is_json in (True, False):
        try:
            parse(text, is_json=is_json)
        except BadList:
            continue


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "engines.yml").write_text(GOOD)
    config = tmp_path / "prometheus.yml"
    config.write_text("scrape_configs:\n- job_name: e\n  file_sd_configs:\n  - files: [engines.yml]\n")
    run = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def names(files: TargetFiles) -> list[str]:
    return [target.name for target in files.look().targets]


def test_a_changed_file_is_read_again_and_a_broken_one_keeps_the_last_good_list(tmp_path: Path) -> None:
    file = tmp_path / "engines.yml"
    file.write_text("- targets: ['h:1']")
    files = TargetFiles([file])
    assert names(files) == ["h:1"]
    file.write_text("- targets: ['h:1', 'h:2']")
    assert names(files) == ["h:1", "h:2"]
    file.write_text("- targets: ['h:1', 'h:2'")
    found = files.look()
    assert [target.name for target in found.targets] == ["h:1", "h:2"]
    assert found.problems[0].startswith(f"{file}: line 1: is not YAML")
    file.write_text("- targets: ['h:3']\n")
    assert files.look().problems == ()
    assert names(files) == ["h:3"]


def test_a_file_that_goes_away_keeps_its_list_and_says_so_and_one_of_a_pattern_is_gone(tmp_path: Path) -> None:
    """A named file that is missing is a mistake; of a pattern's files some come and go."""
    named, other = tmp_path / "named.json", tmp_path / "part-1.json"
    named.write_text('[{"targets": ["h:1"]}]')
    other.write_text('[{"targets": ["h:2"]}]')
    files = TargetFiles([named, tmp_path / "part-*.json"])
    assert names(files) == ["h:1", "h:2"]
    named.unlink()
    other.unlink()
    found = files.look()
    assert [target.name for target in found.targets] == ["h:1"]
    assert found.problems == (f"{named}: cannot be read: No such file or directory",)


def test_a_file_that_is_replaced_within_the_same_moment_is_seen(tmp_path: Path) -> None:
    file, fresh = tmp_path / "e.json", tmp_path / "fresh"
    file.write_text('[{"targets": ["h:1"]}]')
    os.utime(file, ns=(10**18, 10**18))
    files = TargetFiles([file])
    assert names(files) == ["h:1"]
    fresh.write_text('[{"targets": ["h:2"]}]')
    os.utime(fresh, ns=(10**18, 10**18))
    fresh.replace(file)
    assert names(files) == ["h:2"]


def test_too_many_are_cut_and_said(tmp_path: Path) -> None:
    file = tmp_path / "e.json"
    file.write_text(json.dumps([{"targets": [f"h:{port}" for port in range(1, 400)]}]))
    found = TargetFiles([file]).look()
    assert len(found.targets) == 256
    assert found.problems == ("399 engines in files: the first 256 are read",)
