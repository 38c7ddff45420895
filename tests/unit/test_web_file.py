"""The web configuration file: every problem with its line, and the same judgement as promtool's."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from fakes.certificates import authority, needs_openssl, signed
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.problem import ConfigProblems
from tidegate.config.web_file import read_web_file
from tidegate.runtime.web import OPEN_DOOR, ClientAuth
from tidegate.runtime.yaml_text import NotYaml, read_yaml

HASH = "$2y$10$FzNhzmmTPuDrgyAtJmq2ROTdChLZsfqaKXV9Fkrwu4BJ8Fzn8Xy0q"
TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
GOOD = {
    "empty": "",
    "comments": "# nothing yet\n",
    "nothing behind the keys": "basic_auth_users:\nhttp_server_config:\n",
    "tls": TLS,
    "clients": TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n",
    "given": TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n",
    "versions": TLS + "  min_version: TLS12\n  max_version: TLS13\n  prefer_server_cipher_suites: false\n",
    "users": f"basic_auth_users:\n  a: {HASH}\n  b: '{HASH}'\n",
    "headers": "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: sameorigin\n",
}
BAD = {
    "no key": ("tls_server_config:\n  cert_file: server.crt\n", "1: tls_server_config.key_file: is required"),
    "clients unasked": (TLS + "  client_ca_file: ca.crt\n", "4: tls_server_config.client_ca_file: has no effect"),
    "unknown kind of client": (TLS + "  client_auth_type: Please\n", "4: tls_server_config.client_auth_type: must be"),
    "unknown key": (TLS + "  cert_fiel: x\n", '4: tls_server_config.cert_fiel: is not known here; did you mean "cert_'),
    "unknown table": ("tls:\n  a: b\n", "1: tls: is not known here"),
    "twice": (TLS + "  key_file: other.key\n", "4: is not YAML: the key 'key_file' stands twice"),
    "old TLS": (TLS + "  min_version: TLS9\n", "4: tls_server_config.min_version: must be one of TLS12, TLS13"),
    "a password in the clear": ("basic_auth_users:\n  a: hunter2\n", "2: basic_auth_users.a: must be a bcrypt hash"),
    "a number": ("basic_auth_users:\n  a: 5\n", "2: basic_auth_users.a: must be a bcrypt hash"),
    "a header of their own": (
        "http_server_config:\n  headers:\n    X-Mine: a\n",
        "3: http_server_config.headers.X-Mine: cannot be set",
    ),
    "a header's value": (
        "http_server_config:\n  headers:\n    X-Frame-Options: maybe\n",
        "3: http_server_config.headers.X-Frame-Options: must be deny or sameorigin",
    ),
    "no YAML": ("a: [\n", "2: is not YAML:"),
    "no mapping": ("- a\n", "1: must be a mapping"),
}
REFUSED_HERE_ALONE = {
    "ciphers": (
        TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n",
        "4: tls_server_config.cipher_suites: is not honoured",
    ),
    "curves": (TLS + "  curve_preferences: [X25519]\n", "4: tls_server_config.curve_preferences: is not honoured"),
    "clients unverified": (TLS + "  client_auth_type: RequireAnyClientCert\n", "4: tls_server_config.client_auth_type"),
    "no authority": (
        TLS + "  client_auth_type: RequireAndVerifyClientCert\n",
        "4: tls_server_config.client_auth_type: needs client_ca_file",
    ),
}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, its key and the authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = tmp_path_factory.mktemp("web")
    signed(made, authority(made), "server")
    return made


def complaints(folder: Path, text: str) -> list[str]:
    file = folder / "web.yml"
    file.write_text(text)
    try:
        read_web_file(file)
    except ConfigProblems as refused:
        return [str(problem).removeprefix(f"{file}:") for problem in refused.problems]
    return []


def promtool_takes(file: Path) -> bool:
    return subprocess.run(["promtool", "check", "web-config", file], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_good_file_passes_here_and_with_promtool(folder: Path, text: str) -> None:
    assert complaints(folder, text) == []
    assert shutil.which("promtool") is None or promtool_takes(folder / "web.yml")


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_here_and_by_promtool(folder: Path, text: str, said: str) -> None:
    found = complaints(folder, text)
    assert any(each.startswith(said) for each in found), found
    assert not any("hunter2" in each for each in found)
    assert shutil.which("promtool") is None or not promtool_takes(folder / "web.yml")


@pytest.mark.parametrize(("text", "said"), REFUSED_HERE_ALONE.values(), ids=REFUSED_HERE_ALONE)
def test_what_is_not_honoured_is_refused_rather_than_passed_over(folder: Path, text: str, said: str) -> None:
    found = complaints(folder, text)
    assert any(each.startswith(said) for each in found), found


def test_every_problem_is_said_at_once(folder: Path) -> None:
    text = "tls_server_config:\n  cert_file: server.crt\nhttp_server_config:\n  headers:\n    X-Mine: a\n"
    assert [each.partition(":")[0] for each in complaints(folder, text)] == ["1", "5"]


@needs_openssl
def test_the_policy_of_a_whole_file(folder: Path) -> None:
    (folder / "web.yml").write_text(GOOD["clients"] + GOOD["users"] + GOOD["headers"])
    policy = read_web_file(folder / "web.yml")
    assert policy.tls is not None
    assert policy.tls.client_auth is ClientAuth.REQUIRED
    assert policy.tls.files == tuple(folder / name for name in ("server.crt", "server.key", "ca.crt"))
    assert set(policy.users) == {"a", "b"}
    assert policy.headers == {"X-Frame-Options": "sameorigin"}
    assert HASH not in repr(policy)


def test_an_empty_file_is_an_open_door(folder: Path) -> None:
    (folder / "web.yml").write_text("")
    assert read_web_file(folder / "web.yml") == OPEN_DOOR


@pytest.mark.parametrize(
    ("cert", "key", "said"),
    [
        ("server.crt", "nowhere.key", "key_file: {folder}/nowhere.key cannot be read: No such file"),
        ("nowhere.crt", "server.key", "cert_file: {folder}/nowhere.crt cannot be read: No such file"),
        ("server.crt", "ca.key", "key_file: {folder}/ca.key is not the key of the certificate in {folder}/server.crt"),
        ("web.yml", "server.key", "cert_file: no certificate and unencrypted key (PEM) in {folder}/web.yml"),
    ],
)
def test_files_that_do_not_go_together_are_named(folder: Path, cert: str, key: str, said: str) -> None:
    (problem,) = complaints(folder, f"tls_server_config:\n  cert_file: {cert}\n  key_file: {key}\n")
    assert said.format(folder=folder) in problem


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems, match=r"none\.yml:1: cannot be read: No such file"):
        read_web_file(tmp_path / "none.yml")


def test_aliases_cost_no_more_than_they_are_long() -> None:
    """The billion laughs: each line stands for ten of the one before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert read_yaml("\n".join(lines)).lines["a11",] == 12


@pytest.mark.parametrize("text", ["[" * 5000, "? [a]\n: b\n", "!!python/object:os.system {}", "a: \x00"])
def test_strange_yaml_is_refused(text: str) -> None:
    with pytest.raises(NotYaml):
        read_yaml(text)


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    with suppress(NotYaml):
        read_yaml(text)
