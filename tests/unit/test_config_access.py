"""How an engine is reached, by its keys; who may read the agent; secrets that systemd hands over."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.configuration import FakeSecrets, complaints, notes, read

from tidegate.config.settings import AgentSettings, EngineSettings
from tidegate.model.vocabulary import EngineKind, TrafficClass

ENGINE = '[[engine]]\nname = "e"\nurl = "http://127.0.0.1:8000"\n'
SECURE = '[[engine]]\nname = "e"\nurl = "https://gpu-1:8000"\n'
SECRETS = FakeSecrets(
    {
        "/s/token": "tg_x",
        "/s/password": "p:a ss",
        "/s/key": "key with words",
        "/s/lines": "a\nb",
        "/s/odd": "gr\xfc\xdfe",
        "/c/agent.token": "from the unit",
        "/c/secret_vllm.token": "folded",
        "/c/two": "tgh_2",
    },
    {"CREDENTIALS_DIRECTORY": "/c"},
)
BROKEN = {
    "two paths": (ENGINE.replace("8000", "8000/m") + 'path = "/n"\n', "4: engine[e].path: url has a path already"),
    "no path": (ENGINE + 'path = "metrics"\n', "4: engine[e].path: must be a path that begins with /"),
    "an unknown kind": (
        ENGINE + 'kind = "sglanf"\n',
        '4: engine[e].kind: is "sglanf", which is no kind of engine; did',
    ),
    "a time-out beyond the interval": (
        ENGINE + "timeout_seconds = 16\n",
        "4: engine[e].timeout_seconds: must be at most the interval between two readings, 15 seconds",
    ),
    "a user without a password": (ENGINE + 'username = "u"\n', "engine[e].password_file: is required and missing"),
    "a password without a user": (
        ENGINE + 'password_file = "/s/password"\n',
        "engine[e].username: is required and missing",
    ),
    "two ways to sign on": (
        ENGINE + 'token_file = "/s/token"\nusername = "u"\npassword_file = "/s/password"\n',
        "5: engine[e].username: is a second way to sign on",
    ),
    "a header beside a token": (
        ENGINE + 'token_file = "/s/token"\nheader_files = { authorization = "/s/key" }\n',
        "5: engine[e].header_files: is a second way to sign on",
    ),
    "a header of ours": (ENGINE + 'header_files = { Accept = "/s/key" }\n', "is set by the scrape itself"),
    "a header's lines": (ENGINE + 'header_files = { X-A = "/s/lines" }\n', "must hold the header's value alone"),
    "a header's letters": (ENGINE + 'header_files = { X-A = "/s/odd" }\n', "has characters that no header has"),
    "no header": (ENGINE + 'header_files = { "X A" = "/s/key" }\n', "must be the name of an HTTP header"),
    "an authority and no check": (
        SECURE + 'ca_file = "/s/key"\ninsecure_skip_verify = true\n',
        "4: engine[e].ca_file: contradicts insecure_skip_verify",
    ),
    "no authority": (SECURE + 'ca_file = "/s/none"\n', "4: engine[e].ca_file: /s/none cannot be read: No such file"),
    "a web configuration that is not there": (
        '[agent]\nweb_config = "/s/none.yml"\n',
        "2: agent.web_config: /s/none.yml cannot be read: No such file",
    ),
    "a list of no known ending": ('[agent]\nengine_files = ["/e.txt"]\n', "must end in .json, .yml, .yaml"),
    "a pattern of folders": (
        '[agent]\nengine_files = ["/e/*/e.yml"]\n',
        "must have a pattern (*, ?, [...]) in its last",
    ),
    "no credential": (
        ENGINE + 'token_file = "credential:none"\n',
        "4: engine[e].token_file: the engine's token cannot be read from the credential none: No such file",
    ),
    "a way out of the folder": (ENGINE + 'token_file = "credential:../x"\n', "that is no name of a credential"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_each_mistake_is_told_once_with_its_place(text: str, said: str) -> None:
    found = complaints(text, SECRETS)
    assert len(found) == 1, found
    assert said in found[0]


def agent(text: str) -> AgentSettings:
    settings = read(text, SECRETS).agent
    assert settings is not None
    return settings


def engine(text: str) -> EngineSettings:
    (found,) = agent(text).engines
    return found


def test_an_engine_with_nothing_said_is_read_as_ever() -> None:
    found = engine(ENGINE)
    assert found == EngineSettings("e", "http://127.0.0.1:8000/metrics")
    assert (found.kind, found.timeout, found.traffic) == (None, None, TrafficClass.PRODUCTION)


def test_every_word_about_an_engine() -> None:
    text = SECURE + (
        'path = "/m?x=1"\nkind = "llama.cpp"\ntraffic = "test"\ntimeout_seconds = 2.5\nmin_interval_seconds = 60\n'
        'username = "u"\npassword_file = "/s/password"\nheader_files = { X-Api-Key = "/s/key" }\n'
        "insecure_skip_verify = true\n"
    )
    found = engine(text)
    assert found.url == "https://gpu-1:8000/m?x=1"
    assert (found.kind, found.traffic) == (EngineKind.LLAMA_CPP, TrafficClass.TEST)
    assert (found.timeout, found.min_interval) == (timedelta(seconds=2.5), timedelta(seconds=60))
    basic = "Basic " + base64.b64encode(b"u:p:a ss").decode()
    assert found.headers == (("X-Api-Key", "key with words"), ("Authorization", basic))
    assert not found.verify
    for secret in ("key with words", basic):
        assert secret not in repr(found)


def test_what_is_given_away_is_noted() -> None:
    (note,) = notes(SECURE + "insecure_skip_verify = true\n")
    assert (
        note
        == "4: engine[e].insecure_skip_verify: any certificate is taken: whoever sits between reads what is sent along"
    )


def test_auto_is_the_default_kind() -> None:
    assert engine(ENGINE + 'kind = "auto"\n') == engine(ENGINE)


def test_files_and_processes() -> None:
    found = agent('[agent]\nengine_files = ["lists/*.json", "/e.yml"]\ndiscover = true\n')
    assert found.discover
    assert [path.name for path in found.engine_files] == ["*.json", "e.yml"]
    assert all(path.is_absolute() for path in found.engine_files)
    assert not agent("[agent]\n").discover


def test_problems_of_the_web_configuration_are_told_with_their_own_lines(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text("basic_auth_users:\n  a: hunter2\n")
    found = complaints(f'[agent]\nweb_config = "{web}"\ndiscover = 3\n', FakeSecrets({str(web): web.read_text()}))
    assert {each.partition(" (")[0] for each in found} == {
        "3: agent.discover: must be true or false, without quotes, not 3",
        "2: basic_auth_users.a: must be a bcrypt hash",
    }
    assert not any("hunter2" in each for each in found)


def test_credentials_are_found_by_name_in_the_unit_and_in_its_folder() -> None:
    assert engine(ENGINE + 'token_file = "credential:two"\n').token == "tgh_2"
    assert engine(ENGINE + 'token_file = "credential:vllm.token"\n').token == "folded"


CONTROLLED = '[agent]\ncontrollers = ["http://127.0.0.1:9092"]\n'


def test_the_hosts_token_is_found_where_systemd_hands_it_over() -> None:
    secrets = FakeSecrets({"/c/secret_agent.token": "tgh_1"}, {"CREDENTIALS_DIRECTORY": "/c"})
    settings = read(CONTROLLED, secrets)
    assert settings.agent is not None
    assert settings.agent.token == "tgh_1"
    assert settings.notes == ()


def test_without_any_token_the_remedy_is_told() -> None:
    for variables in ({}, {"CREDENTIALS_DIRECTORY": "/c"}):
        (found,) = complaints(CONTROLLED, FakeSecrets(variables=variables))
        assert found.startswith("1: agent.token_file: is required and missing: the controller asks every host")


def test_the_page_names_every_kind_of_engine() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configure.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `kind` | auto |")]
    assert [kind for kind in EngineKind if f"`{kind}`" not in row] == []
