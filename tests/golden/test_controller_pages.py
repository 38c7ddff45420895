"""The status page and the controller's metrics, word for word; hostile text stays text."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fakes.overview import overview
from golden.regenerate_controller import HOW, LATE, NOON, READY, expected
from prometheus_client.parser import text_string_to_metric_families

from tidegate.expose.controller_metrics import ControllerCollector
from tidegate.expose.exposition import render as exposition
from tidegate.expose.status_page import render
from tidegate.expose.words import choose_language
from tidegate.model.reading import HostName

GOLDEN = list(expected())
VOID = frozenset({"meta", "br", "link"})


@pytest.mark.parametrize(("path", "text"), GOLDEN, ids=[path.name for path, _ in GOLDEN])
def test_nothing_changes_unseen(path: Path, text: str) -> None:
    """A change of the page is read by somebody before it ships."""
    assert text == path.read_text(encoding="utf-8"), HOW


class Tags(HTMLParser):
    """Every element closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_well_formed(language: str) -> None:
    """What is opened is closed, in order."""
    tags = Tags()
    tags.feed(render(overview(NOON), NOON, READY, language))
    assert tags.open == []


def test_whatever_a_host_says_stays_text() -> None:
    """Names, reasons and problems come from other machines."""
    fleet = overview(NOON)
    evil = "<script>alert(1)</script>\" onload='x'"
    hosts = (replace(fleet.hosts[0], name=HostName(evil), problems=(evil,)),)

    page = render(replace(fleet, hosts=hosts, notes=(evil,)), NOON, (False, evil), "en")

    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 4


def test_every_figure_has_a_value_or_a_reason_and_cost_is_marked_estimated() -> None:
    """Nothing is blank, nothing that is missing is zero."""
    page = {path.name: text for path, text in GOLDEN}["status.en.html"]

    assert page.count("<dt>") == page.count("<dd") == 34
    assert "missing: no traffic" in page
    assert '≤ 0.028 USD <small class="dim">estimated, last hour</small>' in page
    assert "1 of 2 replicas missing (stale)" in page


@pytest.mark.parametrize(
    ("asked", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "en;q=0.5, zh-TW;q=0.7", "zh"),
        (None, "de-DE,de;q=0.9", "en"),
        (None, "zh;q=high,en", "zh"),
        ("en", "zh", "en"),
        ("klingon", "zh", "zh"),
    ],
)
def test_the_language_is_the_one_asked_for_or_the_browsers(asked: str | None, accepted: str, language: str) -> None:
    """English where neither is ours."""
    assert choose_language(asked, accepted) == language


def test_metrics_are_readable_and_pass_the_linter() -> None:
    """By the client's own parser, and by promtool where it is installed."""
    text = {path.name: text for path, text in GOLDEN}["controller.prom"]
    assert len(list(text_string_to_metric_families(text))) > 25

    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is absent: apt-get install prometheus")
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_old_figures_are_not_served_as_live_ones() -> None:
    """When ticks no longer go through, pools and hosts are absent; what the controller knows of itself is not."""
    text = exposition(ControllerCollector(overview(NOON), NOON, fresh=LATE[0]))[0].decode()

    assert "tidegate_pool_queue_depth" not in text
    assert "tidegate_host_up" not in text
    assert 'tidegate_ticks_total{result="failed"} 2.0' in text
