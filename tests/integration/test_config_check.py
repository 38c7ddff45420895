"""`tidegate config check`: what it prints and how it exits, on files as they lie on a disk."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from fakes.configuration import KEY, FakeSecrets
from typer.testing import CliRunner, Result

from tidegate.cli.config import app
from tidegate.config.document import LARGEST_BYTES, fraction
from tidegate.config.load import load
from tidegate.config.problem import ConfigProblems
from tidegate.config.secret_files import SecretsElsewhere
from tidegate.config.settings import EngineSettings, Listen, TemplateKind
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import Mode, PolicyName
from tidegate.runtime.errors import ConfigError

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SHORT = "[elastic]\nenable = true\nbase_pool_min_replicas = 2\nburst_pool_max_replicas = 3\n"


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def written(folder: Path, text: str, name: str = "tidegate.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_sound_file_prints_what_it_means_and_exits_0(tmp_path: Path) -> None:
    file = written(tmp_path, SHORT + '[cost]\nprice_per_gpu_hour = 2.10\n[[engine]]\nname = "e"\nurl = "http://h:1"\n')
    result = check(file)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"{file}: ok"
    assert "  mode     act: decisions are carried out" in lines
    assert "  pool     base_pool: base, mixed, 2 x 1 GPU, service default, 2.10 USD per GPU hour" in lines
    assert "  pool     burst_pool: burst, mixed, 0 to 3 x 1 GPU, service default, 2.10 USD per GPU hour" in lines
    assert "  engine   e: http://h:1/metrics, in no pool" in lines
    assert any(line.startswith(f"note: {file}:1: elastic: replicas of base_pool, burst_pool") for line in lines)


def test_a_broken_file_lists_every_problem_and_exits_78(tmp_path: Path) -> None:
    file = written(tmp_path, "[controler]\n[elastic]\nenable = 1\n")
    result = check(file)
    assert result.exit_code == 78
    assert result.stdout.splitlines() == [
        f'{file}:1: controler: is not known; did you mean "controller"?',
        f"{file}:3: elastic.enable: must be true or false, without quotes, not 1",
        f"{file}: 2 problems",
    ]


def test_json_tells_scripts_the_same(tmp_path: Path) -> None:
    sound = json.loads(check(written(tmp_path, SHORT), "--json").stdout)
    assert sound["ok"] is True
    assert sound["mode"] == "act"
    assert [(pool["name"], pool["min"], pool["max"]) for pool in sound["pools"]] == [
        ("base_pool", 2, 2),
        ("burst_pool", 0, 3),
    ]
    broken = check(written(tmp_path, "tick = 1\n"), "--json")
    assert broken.exit_code == 78
    (problem,) = json.loads(broken.stdout)["problems"]
    assert (problem["line"], problem["key"]) == (1, "tick")


def test_secrets_are_looked_for_unless_told_not_to(tmp_path: Path) -> None:
    file = written(tmp_path, '[agent]\ncontrollers = ["http://127.0.0.1:1"]\ntoken_file = "none"\n')
    assert check(file).exit_code == 78
    assert f"cannot be read from {tmp_path / 'none'}: No such file or directory" in check(file).stdout
    assert check(file, "--skip-secrets").exit_code == 0
    (tmp_path / "none").write_text("tgh_x\n")
    assert check(file).exit_code == 0
    agent = load(file).agent
    assert agent is not None
    assert agent.token == "tgh_x"


@pytest.mark.parametrize("body", [b"", b"\n\n", b"a b\n", b"\xff\xfe"])
def test_a_secret_file_holds_the_secret_alone(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "token").write_bytes(body)
    file = written(tmp_path, '[agent]\ntoken_file = "token"\n')
    with pytest.raises(ConfigError, match=r"2: agent\.token_file: "):
        load(file)


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("a.toml", b"x = \n", ":1: is not TOML: Invalid value (column 5); strings stand in"),
        ("a.toml", b"\n[a\n", ":2: is not TOML: "),
        ("a.toml", b"\nkey\n", ":2: is not TOML: Expected '=' after a key"),
        ("a.toml", b'a = "x', ":1: is not TOML: Unterminated string at the end of the file"),
        ("a.toml", b"a = 1\n\na = 2\n", ":3: is not TOML: Cannot overwrite a value"),
        ("a.toml", b"a = 1\nb = \xe9\n", ":2: is not UTF-8 text; save the file as UTF-8"),
        ("a.toml", b"a = " + b"[" * 3000 + b"]" * 3000, ":1: arrays or tables are nested too deep"),
        ("a.toml", b"a = " + b"1" * 5000, ":1: is not TOML: "),
        ("a.toml", b"#" * (LARGEST_BYTES + 1), ":1: is larger than 4 MiB"),
        ("a.json", b'{\n"a": }\n', ":2: is not JSON: Expecting value (column 6)"),
        ("a.json", b"[]", ":1: must be a JSON object of tables"),
        ("a.json", b"[" * 100000, ":1: arrays or tables are nested too deep"),
        ("a.json", b"1" * 5000, ":1: is not JSON: "),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path, name: str, body: bytes, expected: str) -> None:
    file = tmp_path / name
    file.write_bytes(body)
    result = check(file)
    assert result.exit_code == 78
    assert f"{file}{expected}" in result.stdout


def test_a_file_that_is_not_there_and_a_folder_are_told(tmp_path: Path) -> None:
    assert "No such file or directory; name a readable TOML file" in check(tmp_path / "none.toml").stdout
    assert "Is a directory" in check(tmp_path).stdout


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_file_may_come_through_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"[controller]\n")
    os.close(writer)
    try:
        assert check(f"/dev/fd/{reader}").exit_code == 0
    finally:
        os.close(reader)


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b'\xef\xbb\xbf[agent]\r\nname = "x"\r\nlisten = 1\r\n')
    with pytest.raises(ConfigProblems, match=r":3: agent\.listen"):
        load(file)


def test_a_price_is_exactly_what_was_written(tmp_path: Path) -> None:
    price = load(written(tmp_path, SHORT + "[cost]\nprice_per_gpu_hour = 2.10\n")).fleet.pools
    assert str(price[PoolName("base_pool")].first_flavour.price_per_gpu_hour) == "2.10"
    assert fraction("1e99999999999999999999") == Decimal("Infinity")


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    settings = load(written(tmp_path, '[controller]\nstate_dir = "state"\n'))
    assert settings.controller.state_dir == tmp_path / "state"


def test_the_example_of_a_controller_means_what_it_says() -> None:
    here = "/etc/tidegate/credentials"
    secrets = FakeSecrets({f"{here}/ops.url": "https://hooks.example/x", f"{here}/ops.secret": KEY})
    settings = load(EXAMPLES / "controller.toml", secrets)
    assert settings.notes == ()
    assert settings.agent is None
    assert settings.fleet.mode is Mode.ADVISE
    assert settings.fleet.services[ServiceName("chat")].policy is PolicyName.SLO
    base, burst = (settings.fleet.pools[PoolName(name)] for name in ("base", "burst"))
    assert (base.min, base.max, burst.min, burst.max) == (2, 4, 0, 6)
    assert (base.first_flavour.price_per_gpu_hour, burst.first_flavour.price_per_gpu_hour) == (
        Decimal("2.10"),
        Decimal("3.40"),
    )
    assert burst.first_flavour.hosts == ("gpu-2", "gpu-3")
    assert burst.first_flavour.start_deadline == timedelta(minutes=15)
    (channel,) = settings.channels
    assert (channel.name, channel.url, channel.secret) == ("ops", "https://hooks.example/x", KEY)
    assert settings.alerts[0].channels == ("ops",)


def test_the_example_of_an_agent_means_what_it_says() -> None:
    token = "/etc/tidegate/credentials/agent.token"
    settings = load(EXAMPLES / "agent.toml", FakeSecrets({token: "tgh_x"}))
    assert settings.notes == ()
    agent = settings.agent
    assert agent is not None
    assert (agent.name, agent.token, agent.listen) == ("gpu-1", "tgh_x", Listen("127.0.0.1", 9091))
    assert agent.controllers == ("https://tidegate.example",)
    assert agent.engines == (EngineSettings("chat-canary", "http://127.0.0.1:8000/metrics", "base", "chat", 2, (0, 1)),)
    assert [(each.name, each.kind, each.unit) for each in agent.templates] == [
        ("vllm", TemplateKind.SYSTEMD, "vllm@{slot}.service")
    ]


@pytest.mark.parametrize("name", ["controller.toml", "agent.toml"])
def test_the_examples_pass_on_a_machine_without_their_secrets(name: str) -> None:
    assert check(EXAMPLES / name, "--skip-secrets").exit_code == 0
    assert load(EXAMPLES / name, SecretsElsewhere()).notes == ()


def test_the_copied_gateway_file_passes_unchanged_and_says_what_is_not_ours(shared: Path) -> None:
    result = check(shared / "skeletons" / "gateway-config.toml")
    assert result.exit_code == 0
    assert "gateway: not ours (the gateway's)" in result.stdout
    assert "pd_separation.coordinator: not ours" in result.stdout
