"""The copied short form: what it expands into, and what becomes of the tables around it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.configuration import complaints, notes, read

from tidegate.config.load import load
from tidegate.config.settings import EngineSettings, Listen
from tidegate.model.fleet import PoolKind, PoolName, PoolRole, ServiceName
from tidegate.model.policy import Mode, PolicyName

BOUNDS = """
[elastic]
base_pool_min_replicas = 2
base_pool_max_replicas = 4
burst_pool_min_replicas = 0
burst_pool_max_replicas = 8
"""
PD = '[pd_separation]\nprefill_pool = "p"\ndecode_pool = "d"\nprefill_replicas = 2\ndecode_replicas = 3\n'


def pool(text: str, name: str) -> tuple[str, PoolKind, PoolRole, int, int]:
    found = read(text).fleet.pools[PoolName(name)]
    return found.service, found.kind, found.role, found.min, found.max


def test_elastic_is_a_base_and_a_burst_pool_of_one_service() -> None:
    assert list(read(BOUNDS).fleet.pools) == ["base_pool", "burst_pool"]
    assert pool(BOUNDS, "base_pool") == ("default", PoolKind.BASE, PoolRole.MIXED, 2, 4)
    assert pool(BOUNDS, "burst_pool") == ("default", PoolKind.BURST, PoolRole.MIXED, 0, 8)


def test_elastic_is_decided_by_gpu_utilisation_with_its_own_knobs() -> None:
    knobs = "scale_out_threshold_gpu_util = 0.8\nscale_in_threshold_gpu_util = 0.2\ncooldown_seconds = 90\n"
    service = read(BOUNDS + knobs).fleet.services[ServiceName("default")]
    assert service.policy is PolicyName.THRESHOLD
    assert (service.threshold.scale_out_above, service.threshold.scale_in_below) == (0.8, 0.2)
    assert service.threshold.cooldown == timedelta(seconds=90)


def test_the_knobs_not_given_are_those_that_many_teams_start_with() -> None:
    threshold = read(BOUNDS).fleet.services[ServiceName("default")].threshold
    assert (threshold.scale_out_above, threshold.scale_in_below) == (0.75, 0.30)
    assert threshold.cooldown == timedelta(seconds=120)


@pytest.mark.parametrize(
    ("keys", "base", "burst"),
    [
        ("base_pool_max_replicas = 3", (1, 3), (0, 0)),
        ("base_pool_min_replicas = 3", (3, 3), (0, 0)),
        ("base_pool_max_replicas = 0", (0, 0), (0, 0)),
        ("burst_pool_max_replicas = 5", (1, 1), (0, 5)),
        ("cooldown_seconds = 5", (1, 1), (0, 0)),
    ],
)
def test_a_bound_that_is_not_given_follows_the_other(keys: str, base: tuple[int, int], burst: tuple[int, int]) -> None:
    text = f"[elastic]\n{keys}\n"
    assert pool(text, "base_pool")[3:] == base
    assert pool(text, "burst_pool")[3:] == burst


@pytest.mark.parametrize(
    ("line", "mode"), [("enable = true", Mode.ACT), ("enable = false", Mode.ADVISE), ("", Mode.ADVISE)]
)
def test_enable_means_act_and_its_absence_only_advises(line: str, mode: Mode) -> None:
    assert read(f"{BOUNDS}\n{line}\n").fleet.mode is mode


def test_pd_separation_is_a_prefill_and_a_decode_pool_of_fixed_size() -> None:
    assert pool(PD, "p") == ("pd_separation", PoolKind.BASE, PoolRole.PREFILL, 2, 2)
    assert pool(PD, "d") == ("pd_separation", PoolKind.BASE, PoolRole.DECODE, 3, 3)


def test_pd_separation_that_is_not_enabled_makes_nothing_and_says_so() -> None:
    text = PD + "enable = false\n"
    assert not read(text).fleet.pools
    assert any("no prefill and decode pools are made" in note for note in notes(text))


def test_both_short_forms_may_stand_together() -> None:
    assert list(read(BOUNDS + PD).fleet.pools) == ["base_pool", "burst_pool", "p", "d"]


@pytest.mark.parametrize("short", [BOUNDS, PD])
@pytest.mark.parametrize("long", ['[[service]]\nname = "s"\n', '[[pool]]\nname = "x"\nservice = "default"\n'])
def test_short_and_long_form_for_the_pools_is_one_problem_that_names_both(short: str, long: str) -> None:
    found = [each for each in complaints(long + short) if "keep one of the two forms" in each]
    assert len(found) == 1
    assert "line 1" in found[0]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("[elastic]\nenable = true", '[controller]\nmode = "act"'),
        ("[elastic]\npoll_interval_seconds = 15", "[controller]\ntick_seconds = 15"),
        ("[elastic]\npoll_interval_seconds = 15", "[agent]\ninterval_seconds = 15"),
        ("[observability]\nmetrics_port = 9091", '[agent]\nlisten = "127.0.0.1:9091"'),
    ],
)
def test_the_same_thing_said_in_both_forms_is_a_problem_even_when_both_agree(short: str, long: str) -> None:
    (found,) = complaints(f"{short}\n{long}\n")
    assert "2: " in found
    assert "in line 4: keep one of the two forms" in found


def test_elastic_without_bounds_makes_no_pools_and_goes_with_the_long_form() -> None:
    text = "[elastic]\nenable = true\n[[service]]\nname = 's'\n[[pool]]\nname = 'x'\nmax = 3\n"
    assert list(read(text).fleet.pools) == ["x"]
    assert read(text).fleet.mode is Mode.ACT


def test_problems_of_the_short_form_name_its_own_keys() -> None:
    text = (
        "[elastic]\nbase_pool_min_replicas = 5\nbase_pool_max_replicas = 2\n"
        "scale_out_threshold_gpu_util = 0.2\nscale_in_threshold_gpu_util = 0.3\n"
    )
    assert complaints(text + PD.replace('"p"', '"base_pool"')) == [
        "3: elastic.base_pool_max_replicas: the smallest number of replicas (5) is above the largest (2)",
        (
            "4: elastic.scale_out_threshold_gpu_util: is 0.2, but must be above scale_in_threshold_gpu_util (0.3):"
            " else the same load scales out and in"
        ),
        '7: pd_separation.prefill_pool: the pool "base_pool" stands twice, first in line 1',
    ]


def test_the_only_template_and_the_hosts_of_the_file_start_the_short_forms_pools() -> None:
    place = (
        '[[template]]\nname = "vllm"\nkind = "systemd"\nunit = "vllm@{slot}.service"\n[[host]]\nname = "g"\ngpus = 8\n'
    )
    flavour = read(BOUNDS + place).fleet.pools[PoolName("burst_pool")].first_flavour
    assert (flavour.template, flavour.hosts) == ("vllm", ("g",))
    assert read(BOUNDS).fleet.pools[PoolName("burst_pool")].first_flavour.template == ""


def test_poll_interval_is_the_agents_interval_and_the_controllers_tick_and_widens_windows() -> None:
    text = '[elastic]\npoll_interval_seconds = 30\nmetrics_endpoint = "http://127.0.0.1:8000/metrics"\n'
    settings = read(text)
    assert settings.agent is not None
    assert settings.agent.interval == settings.controller.tick == timedelta(seconds=30)
    assert settings.agent.window == settings.controller.view_window == timedelta(seconds=120)


def test_an_exporters_page_is_read_as_an_engine_and_a_note_says_so() -> None:
    text = BOUNDS + 'metrics_endpoint = "http://127.0.0.1:8000/metrics"\n'
    agent = read(text).agent
    assert agent is not None
    assert agent.engines == (
        EngineSettings("metrics_endpoint", "http://127.0.0.1:8000/metrics", "base_pool", "default"),
    )
    assert any("is read by the agent as an engine's page" in note for note in notes(text))


def test_a_prometheus_is_not_read_unless_it_is_the_source_and_a_note_says_so_plainly() -> None:
    text = '[elastic]\nmetrics_endpoint = "http://prometheus:9090"\n'
    assert read(text).agent is None
    assert any("which is not read" in note for note in notes(text))


def test_observability_sets_the_log_the_port_and_the_figures_under_our_names() -> None:
    text = (
        '[observability]\nlog_level = "debug"\nmetrics_port = 9100\nmetrics = ["ttft_ms", "p95_latency_ms", "ttft"]\n'
    )
    settings = read(text)
    assert settings.agent is not None
    assert settings.agent.listen == Listen("127.0.0.1", 9100)
    assert (settings.log_level, settings.figures) == ("debug", ("ttft", "p95_latency"))
    assert any("ttft_ms is ttft, p95_latency_ms is p95_latency" in note for note in notes(text))


@pytest.mark.parametrize("line", ["enable = false", "export_metrics = false"])
def test_observability_can_keep_the_agent_from_exporting(line: str) -> None:
    agent = read(f"[observability]\n{line}\n[agent]\n").agent
    assert agent is not None
    assert not agent.export_metrics


@pytest.mark.parametrize("name", ["gateway-config.toml", "engine-config.toml", "client-config.toml"])
def test_the_copied_toml_files_pass_unchanged(shared: Path, name: str) -> None:
    settings = load(shared / "skeletons" / name)
    assert any("not ours" in note for note in settings.notes)


@pytest.mark.parametrize("name", ["gateway-settings.json", "client-settings.json"])
def test_the_copied_json_files_pass_unchanged(shared: Path, name: str) -> None:
    settings = load(shared / "skeletons" / name)
    lines = (shared / "skeletons" / name).read_text().splitlines()
    for key in json.loads("\n".join(lines)):
        expected = next(number for number, line in enumerate(lines, 1) if f'"{key}"' in line)
        if key not in {"elastic", "observability"}:
            assert any(f"{name}:{expected}: {key}: not ours" in note for note in settings.notes)


def test_the_gateways_file_means_four_pools_and_its_figures(shared: Path) -> None:
    settings = load(shared / "skeletons" / "gateway-config.toml")
    assert settings.agent is None
    assert {name: (each.min, each.max) for name, each in settings.fleet.pools.items()} == {
        "base_pool": (2, 4),
        "burst_pool": (0, 8),
        "prefill_cluster": (2, 2),
        "decode_cluster": (2, 2),
    }
    assert len(settings.figures) == 10
    assert any("routes to low_latency, high_throughput, cache_ready" in note for note in settings.notes)


def test_the_engines_file_gives_its_four_addresses(shared: Path) -> None:
    agent = load(shared / "skeletons" / "engine-config.toml").agent
    assert agent is not None
    assert [engine.url for engine in agent.engines] == [
        "http://10.0.0.11:8100/metrics",
        "http://10.0.0.12:8100/metrics",
        "http://10.0.0.21:8200/metrics",
        "http://10.0.0.22:8200/metrics",
    ]


def test_engine_addresses_of_the_gateway_join_the_pool_of_their_role() -> None:
    text = PD + '[pd_disaggregation]\nprefill_instances = ["http://10.0.0.11:8100"]\n'
    agent = read(text).agent
    assert agent is not None
    assert [(engine.name, engine.pool, engine.service) for engine in agent.engines] == [
        ("10.0.0.11:8100", "p", "pd_separation")
    ]


def test_foreign_tables_are_never_refused_whatever_is_in_them() -> None:
    text = (
        'model = 1\n[gateway]\nrules = "none"\n[pd_disaggregation]\nprefill_instances = ["x", 3, "http://a:b@c"]\n'
        'decode_instances = "no"\n[[cache]]\napi_key = "k"\n[llm]\ntoken = ""\n'
    )
    assert complaints(text) == []
    assert any("cache[#1].api_key: a secret stands in the file" in note for note in notes(text))
    assert sum("is not an http address; left out" in note for note in notes(text)) == 3


def test_foreign_instances_that_are_switched_off_are_not_read() -> None:
    assert read('[pd_disaggregation]\nenabled = false\nprefill_instances = ["http://h:1"]\n').agent is None


def test_an_address_that_stands_twice_is_read_once() -> None:
    text = (
        '[[engine]]\nname = "e"\nurl = "http://h:1/metrics"\n'
        '[pd_disaggregation]\nprefill_instances = ["http://h:1", "http://h:2", "http://h:2/"]\n'
    )
    agent = read(text).agent
    assert agent is not None
    assert [engine.name for engine in agent.engines] == ["e", "h:2"]
    assert any("is the engine in line 3; read once" in note for note in notes(text))
