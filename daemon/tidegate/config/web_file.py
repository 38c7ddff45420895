"""Read a web configuration file (exporter-toolkit's format) into a policy: every problem at once, with its line."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tidegate.config.complaint import complain
from tidegate.config.problem import ConfigProblems, Problem
from tidegate.config.schema_web import TlsServerTable, WebTable, header_problem
from tidegate.runtime.errors import ConfigError
from tidegate.runtime.passwords import bcrypt_check
from tidegate.runtime.web import ClientAuth, TlsFiles, WebPolicy, server_context
from tidegate.runtime.yaml_text import NotYaml, Place, YamlText, read_yaml

_LARGEST_BYTES = 1024 * 1024
_TLS = "tls_server_config"
_PLACES = ("cert_file", "key_file", "client_ca_file")


def read_web_file(path: Path) -> WebPolicy:
    """The policy of the file, its certificate tried out; raises ConfigProblems with everything that is wrong.

    Paths in the file start at the file's folder. An empty file is plain HTTP without passwords.
    """
    text = _yaml(path, _text(path))
    table = _table(path, text)
    problems = [Problem(str(path), _line(text, place), ".".join(map(str, place)), why) for place, why in _check(table)]
    if problems:
        raise ConfigProblems(problems)
    tls = _tls_files(table.tls_server_config, path.parent) if table.tls_server_config else None
    if tls is not None:
        _try_out(path, text, tls)
    if table.basic_auth_users:
        bcrypt_check()
    users = {name: hashed.encode() for name, hashed in table.basic_auth_users.items()}
    return WebPolicy(tls, users, dict(table.http_server_config.headers))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(_LARGEST_BYTES + 1)
        if len(body) > _LARGEST_BYTES:
            raise ConfigProblems([Problem(str(path), 1, "", "is larger than 1 MiB: this is no web configuration")])
        return body.decode()
    except OSError as error:
        raise ConfigProblems([Problem(str(path), 1, "", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigProblems([Problem(str(path), 1, "", "is not UTF-8 text")]) from error


def _yaml(path: Path, text: str) -> YamlText:
    try:
        return read_yaml(text)
    except NotYaml as error:
        raise ConfigProblems([Problem(str(path), error.line, "", f"is not YAML: {error.why}")]) from error


def _table(path: Path, text: YamlText) -> WebTable:
    data = {} if text.data is None else text.data
    if not isinstance(data, dict):
        raise ConfigProblems([Problem(str(path), 1, "", "must be a mapping: `tls_server_config:` and its like")])
    # A key with nothing behind it is as good as none, in Go's reader too.
    data = {name: value for name, value in data.items() if value is not None}
    try:
        return WebTable.model_validate(data)
    except ValidationError as refused:
        problems = []
        for error in refused.errors(include_url=False):
            place = tuple(part for part in error["loc"] if part != "[key]")
            said = complain(WebTable, error).replace("it belongs into", "in our own file it belongs into")
            problems.append(Problem(str(path), _line(text, place), ".".join(map(str, place)), said))
        raise ConfigProblems(problems) from refused


def _line(text: YamlText, place: Place) -> int:
    return next((text.lines[place[:length]] for length in range(len(place), 0, -1) if place[:length] in text.lines), 1)


def _check(table: WebTable) -> Iterator[tuple[Place, str]]:
    tls = table.tls_server_config
    if tls is not None:
        yield from _check_tls(tls)
    for name, value in table.http_server_config.headers.items():
        problem = header_problem(name, value)
        if problem:
            yield ("http_server_config", "headers", name), problem
    for name in table.basic_auth_users:
        if not name or ":" in name:
            yield ("basic_auth_users", name), "a user's name is not empty and has no colon"


def _check_tls(tls: TlsServerTable) -> Iterator[tuple[Place, str]]:
    for key, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if getattr(tls, key) is None:
            yield (_TLS, key), f"is required and missing: TLS needs it beside {other}"
    if tls.client_ca_file is not None and tls.client_auth_type is ClientAuth.NONE:
        yield (_TLS, "client_ca_file"), "has no effect: set client_auth_type to RequireAndVerifyClientCert"
    if tls.client_ca_file is None and tls.client_auth_type is not ClientAuth.NONE:
        yield (_TLS, "client_auth_type"), "needs client_ca_file: whose certificates are good?"
    if tls.max_version is not None and tls.max_version < tls.min_version:
        yield (_TLS, "max_version"), "is below min_version"


def _tls_files(table: TlsServerTable, folder: Path) -> TlsFiles:
    if table.cert_file is None or table.key_file is None:
        raise ConfigError("a certificate without its key")  # _check_tls has refused it
    ca_file = None if table.client_ca_file is None else folder / table.client_ca_file
    highest = table.max_version or ssl.TLSVersion.MAXIMUM_SUPPORTED
    return TlsFiles(
        cert_file=folder / table.cert_file,
        key_file=folder / table.key_file,
        client_auth=table.client_auth_type,
        client_ca_file=ca_file,
        min_version=table.min_version,
        max_version=highest,
    )


def _try_out(path: Path, text: YamlText, tls: TlsFiles) -> None:
    try:
        server_context(tls)
    except ConfigError as error:
        key, _, why = str(error).partition(": ")
        place: Place = (_TLS, key) if key in _PLACES else (_TLS,)
        raise ConfigProblems([Problem(str(path), _line(text, place), f"{_TLS}.{key}", why)]) from error
