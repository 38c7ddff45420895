"""The builder holds collectors to the table of families; rendering survives what a scraper or a driver may send."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tidegate.expose.exposition import Exposition, render
from tidegate.expose.families import ENGINE, Role
from tidegate.expose.metrics_doc import with_tables
from tidegate.model.reading import Gap, Histogram, Missing


class Fixed:
    """A collector over a finished exposition."""

    def __init__(self, out: Exposition) -> None:
        self._out = out

    def collect(self) -> Iterable[Metric]:
        return self._out.metrics()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda out: out.add("tidegate_no_such_family", {}, 1.0),
        lambda out: out.add("tidegate_gpu_up", {}, 1.0),
        lambda out: out.add("tidegate_gpu_up", {"uuid": "a", "host": "b"}, 1.0),
        lambda out: out.add("tidegate_pool_replicas", {"pool": "a", "state": "ready"}, 1.0),
        lambda out: out.add(
            "tidegate_ttft_seconds", {"engine": "a", "pool": "", "service": "", "replica": "", "traffic": ""}, 1.0
        ),
        lambda out: [out.add("tidegate_gpus", {}, 1.0) for _ in range(2)],
    ],
    ids=["undeclared", "label missing", "label too many", "of the other role", "wrong type", "twice"],
)
def test_the_builder_refuses_what_the_table_does_not_declare(wrong: Callable[[Exposition], object]) -> None:
    with pytest.raises(ValueError, match="tidegate_"):
        wrong(Exposition(Role.AGENT))


@pytest.mark.parametrize("value", [None, Missing(Gap.NO_TRAFFIC)])
def test_a_missing_value_is_an_absent_series(value: Missing | None) -> None:
    out = Exposition(Role.AGENT)
    out.add("tidegate_gpus", {}, value)
    out.quantile("tidegate_ttft_window_seconds", dict.fromkeys(ENGINE, "a"), 0.5, value)

    assert out.metrics() == ()


def test_a_histogram_without_an_infinite_bucket_is_left_out() -> None:
    out = Exposition(Role.AGENT)
    labels = dict.fromkeys(ENGINE, "a")
    out.histogram("tidegate_ttft_seconds", labels, Histogram((0.5,), (1.0,), 1.0, 1.0))
    out.histogram("tidegate_itl_seconds", labels, Histogram((), (), 0.0, 0.0))

    assert out.metrics() == ()


def test_histogram_counts_come_from_the_last_bucket_so_that_they_always_agree() -> None:
    out = Exposition(Role.AGENT)
    labels = dict.fromkeys(ENGINE, "a")
    out.histogram("tidegate_ttft_seconds", labels, Histogram((0.5, math.inf), (1.0, 3.0), 2.5, 4.0))

    [metric] = out.metrics()
    assert {(s.name, s.labels.get("le"), s.value) for s in metric.samples} == {
        ("tidegate_ttft_seconds_bucket", "0.5", 1.0),
        ("tidegate_ttft_seconds_bucket", "+Inf", 3.0),
        ("tidegate_ttft_seconds_count", None, 3.0),
        ("tidegate_ttft_seconds_sum", None, 2.5),
    }


@given(st.text())
def test_any_label_value_renders_and_reads_back(value: str) -> None:
    """Model names and drivers' words are not ours: lone surrogates, quotes, newlines, megabytes."""
    out = Exposition(Role.AGENT)
    out.add("tidegate_build_info", {"version": value}, 1.0)
    body, _ = render(Fixed(out))

    [metric] = text_string_to_metric_families(body.decode())
    assert metric.samples[0].labels["version"] == value[:256].encode("utf-8", "replace").decode()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", "application/openmetrics-text"),
        ("application/openmetrics-text; version=one", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=", "application/openmetrics-text"),
        (";;=;,,", "text/plain; version=0.0.4"),
    ],
)
def test_the_format_is_what_the_scraper_asks_for(accept: str, kind: str) -> None:
    out = Exposition(Role.AGENT)
    out.add("tidegate_gpus", {}, 2.0)
    body, content_type = render(Fixed(out), accept)

    assert content_type.startswith(kind)
    assert body.endswith(b"# EOF\n") == content_type.startswith("application/openmetrics-text")


@given(st.text(max_size=80))
def test_no_accept_header_breaks_a_scrape(accept: str) -> None:
    render(Fixed(Exposition(Role.AGENT)), f"application/openmetrics-text; version={accept}")


def test_a_document_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="families"):
        with_tables("# Metrics\n")
