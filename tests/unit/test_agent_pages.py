"""The agent's HTTP application over fixed snapshots: what is served when, and what is never served as live."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event

import pytest
from fakes.agent_snapshot import NOON, busy_host, survey
from fakes.browser import Browser

from tidegate.expose.agent_metrics import AgentCollector, render, retry_rate, tokens_per_gpu_per_second
from tidegate.expose.agent_pages import agent_app
from tidegate.model.figures import Figure
from tidegate.model.reading import (
    Counter,
    EngineKind,
    EngineState,
    Gap,
    GpuFault,
    GpuSurvey,
    HostName,
    HostReading,
    Missing,
)
from tidegate.model.snapshot import AgentSnapshot, EngineLabels, LinkState, SpoolState

SECOND = timedelta(seconds=1)


class Hand:
    """A clock that is set by hand."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def real_seconds(self, span: timedelta) -> float:
        return span.total_seconds()

    def wait(self, event: Event, span: timedelta) -> bool:
        return event.is_set()


def client(snapshot: AgentSnapshot | None, at: datetime = NOON, *, export_metrics: bool = True) -> Browser:
    return Browser(agent_app(lambda: snapshot, Hand(at), 45 * SECOND, export_metrics=export_metrics))


def exposition(snapshot: AgentSnapshot | None) -> str:
    return render(AgentCollector(lambda: snapshot))[0].decode()


def with_gpus(gpus: GpuSurvey) -> AgentSnapshot:
    host = busy_host()
    return replace(host, reading=replace(host.reading, gpus=gpus))


def test_a_fresh_agent_is_healthy_ready_and_exports() -> None:
    web = client(busy_host(), NOON + 44 * SECOND)

    assert (web.get("/-/healthy").status_code, web.get("/-/ready").status_code) == (200, 200)
    scraped = web.get("/metrics")
    assert scraped.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "tidegate_queue_depth{" in scraped.text


def test_openmetrics_is_served_to_who_asks_for_it() -> None:
    scraped = client(busy_host()).get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert scraped.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert scraped.text.endswith("# EOF\n")


def test_before_the_first_collection_the_agent_says_so() -> None:
    web = client(None)

    assert web.get("/-/healthy").status_code == 200
    assert (web.get("/-/ready").status_code, web.get("/-/ready").text) == (503, "not ready: nothing collected yet\n")
    assert (web.get("/metrics").status_code, web.get("/metrics").text) == (200, "")
    assert "nothing collected yet" in web.get("/").text


def test_old_figures_are_never_served_as_live() -> None:
    """When collecting stops, the scrape keeps what the agent knows of itself and loses every GPU and engine."""
    web = client(busy_host(), NOON + 46 * SECOND)

    assert web.get("/-/ready").status_code == 503
    assert "the last collection was at 2026-11-25 12:00:00 UTC" in web.get("/-/ready").text
    text = web.get("/metrics").text
    assert "tidegate_last_collection_timestamp_seconds" in text
    assert "tidegate_queue_depth" not in text
    assert "tidegate_gpu_" not in text
    assert "Not ready" in web.get("/").text


def test_metrics_can_be_switched_off_and_say_how() -> None:
    answer = client(busy_host(), export_metrics=False).get("/metrics")

    assert answer.status_code == 404
    assert "export_metrics" in answer.text


def test_a_host_without_gpus_says_why_and_exports_its_engines() -> None:
    why = "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"
    host = with_gpus(GpuSurvey(up=False, why=why, at=NOON, fault=GpuFault.NO_LIBRARY))

    text = exposition(host)
    assert 'tidegate_nvml_up{reason="no_library"} 0.0' in text
    assert "tidegate_gpu_up" not in text
    assert "tidegate_gpus" not in text
    assert "tidegate_queue_depth{" in text
    assert why in client(host).get("/").text


def test_a_survey_that_nobody_classified_has_the_reason_unknown() -> None:
    assert 'tidegate_nvml_up{reason="unknown"} 0.0' in exposition(with_gpus(GpuSurvey(up=False, why="?", at=NOON)))


def test_a_lost_gpu_is_down_without_figures_beside_its_neighbour() -> None:
    text = exposition(with_gpus(survey()))

    assert 'tidegate_gpu_up{uuid="GPU-8f6d2a31-0001"} 0.0' in text
    assert 'tidegate_gpu_utilization{uuid="GPU-8f6d2a31-0001"}' not in text
    assert 'tidegate_gpu_utilization{uuid="GPU-8f6d2a31-0000"} 0.87' in text


def test_an_agent_without_a_controller_exports_no_link() -> None:
    text = exposition(replace(busy_host(), link=LinkState(), spool=SpoolState()))

    assert "tidegate_link_" not in text
    assert "tidegate_spool_oldest_age_seconds" not in text
    assert "tidegate_spool_reports 0.0" in text


def test_an_engine_that_is_down_has_its_state_and_reasons_and_no_figure() -> None:
    text = exposition(busy_host())

    mine = [line for line in text.splitlines() if 'engine="vllm-b"' in line]
    assert 'tidegate_engine_up{engine="vllm-b",pool="",replica="",service="",traffic="production"} 0.0' in mine
    assert sum(line.endswith(" 1.0") for line in mine if line.startswith("tidegate_engine_state")) == 1
    assert any(line.startswith("tidegate_figure_missing") and 'reason="unreachable"' in line for line in mine)
    assert not any(line.startswith(("tidegate_queue_depth", "tidegate_prompt_tokens_total")) for line in mine)


def test_tokens_per_gpu_counts_prompt_and_generated_tokens_over_the_gpus_held() -> None:
    """6000 and 60000 tokens on each of two ranks in a minute, on two GPUs."""
    host = busy_host()

    assert tokens_per_gpu_per_second(host, host.reading.engines[0]) == pytest.approx(2 * 66_000 / 60 / 2)
    assert tokens_per_gpu_per_second(host, host.reading.engines[1]) == Missing(Gap.UNREACHABLE)
    nothing = replace(host, engines={host.reading.engines[0].engine: EngineLabels(gpus=0)})
    assert tokens_per_gpu_per_second(nothing, host.reading.engines[0]) == Missing(Gap.NOT_SUPPORTED)


def test_the_retry_rate_is_missing_where_nothing_counts_retries() -> None:
    host = busy_host()
    engine = host.reading.engines[0]
    window = host.windows[engine.engine]
    counted = {name: n for name, n in window.increases.items() if name is not Counter.RETRIES}

    assert retry_rate(host, engine) == pytest.approx(0.1)
    blind = replace(host, windows={engine.engine: replace(window, increases=counted)})
    assert retry_rate(blind, engine) == Missing(Gap.NOT_SUPPORTED)


def test_a_gateways_retries_are_told_of_the_requests_that_it_took_in() -> None:
    host = busy_host()
    engine = replace(host.reading.engines[0], kind=EngineKind.SGLANG_ROUTER)
    figures = {**host.figures[engine.engine], Figure.REQUESTS: 480.0, Figure.FINISHED: Missing(Gap.NOT_SUPPORTED)}
    retries = host.windows[engine.engine].increases[Counter.RETRIES]

    assert retry_rate(replace(host, figures={engine.engine: figures}), engine) == pytest.approx(retries / 480)


def test_ranks_whose_buckets_differ_are_not_added_up() -> None:
    host = busy_host()
    engine = host.reading.engines[0]
    name, rank = sorted(engine.histograms)[-1]
    odd = replace(engine.histograms[name, rank], bounds=(0.2, *engine.histograms[name, rank].bounds[1:]))
    reading = replace(engine, histograms={**engine.histograms, (name, rank): odd})
    text = exposition(replace(host, reading=replace(host.reading, engines=(reading,))))

    [line] = [line for line in text.splitlines() if line.startswith(f"tidegate_{name}_seconds_count")]
    assert line.endswith(" 70.0")


@pytest.mark.parametrize("state", EngineState)
def test_the_page_has_words_for_every_engine_state(state: EngineState) -> None:
    host = busy_host()
    engine = replace(host.reading.engines[0], state=state)
    text = client(replace(host, reading=replace(host.reading, engines=(engine,)))).get("/").text

    assert f">{state.value}</span><br><small>" in text


def test_the_page_escapes_what_others_wrote_and_runs_no_scripts() -> None:
    """Model names, problems and GPU names come from outside."""
    bad = "<script>alert(1)</script>"
    host = busy_host()
    engine = replace(host.reading.engines[0], model=bad, problems=(bad,))
    gpu = replace(host.reading.gpus.gpus[0], name=bad)
    down = replace(host.reading.gpus.gpus[1], why=bad)
    reading = HostReading(HostName("gpu-7"), NOON, replace(host.reading.gpus, gpus=(gpu, down), driver=bad), (engine,))
    page = client(replace(host, reading=reading, link=LinkState(configured=True, error=bad))).get("/")

    assert "<script" not in page.text
    assert page.text.count("&lt;script&gt;") == 6
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_page_shows_an_empty_host_plainly() -> None:
    reading = HostReading(HostName("gpu-7"), NOON, GpuSurvey(up=True, why="", at=NOON))
    bare = replace(busy_host(), reading=reading, replicas={}, link=LinkState(), spool=SpoolState())
    text = client(replace(bare, config_reload_ok=False)).get("/").text

    assert "No engine is configured or running here." in text
    assert "The driver lists no GPU." in text
    assert "No controller is configured" in text
    assert "The last reload failed" in text
