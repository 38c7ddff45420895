"""What `[prometheus]` means: where samples are read, what is sent along, whose certificate is good."""

from __future__ import annotations

import base64
import ssl

from tidegate.config.addresses import host_of, is_loopback
from tidegate.config.meaning_engines import exporter_address
from tidegate.config.schema_prometheus import PrometheusTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.scrape import PrometheusPlace, Source

_OURS = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})


def prometheus_place(scope: Scope) -> PrometheusPlace:
    """The table; `[elastic] metrics_endpoint` is its address when it has none."""
    entry = scope.tables.prometheus
    _say_whether_it_is_read(scope, entry)
    table = entry.table
    return PrometheusPlace(
        url=_url(scope, entry).rstrip("/"),
        headers=_headers(scope, entry),
        ca_file=_ca_file(scope, entry),
        timeout=table.timeout_seconds,
        most_bytes=table.most_mib * 1024 * 1024,
        matchers=tuple(sorted(table.matchers.items())),
        host_label=table.host_label or "",
    )


def _is_read(scope: Scope) -> bool:
    return scope.tables.controller.table.source is Source.PROMETHEUS


def _say_whether_it_is_read(scope: Scope, entry: Entry[PrometheusTable]) -> None:
    endpoint, place = scope.tables.elastic.table.metrics_endpoint, scope.tables.elastic.at("metrics_endpoint")
    if endpoint is not None and exporter_address(scope):
        scope.findings.note(
            place,
            f"{endpoint} is read by the agent as an engine's page (a Prometheus server is named without /metrics)",
        )
    elif endpoint is not None and not _is_read(scope):
        scope.findings.note(
            place,
            f"{endpoint} is taken for a Prometheus server, which is not read: agents on the GPU hosts report instead"
            ' (it is read with [controller] source = "prometheus"; an exporter\'s address ends in /metrics)',
        )
    if "prometheus" in scope.tables.present and not _is_read(scope):
        scope.findings.note(entry.path, 'is not read: [controller] source is "agents"')


def _url(scope: Scope, entry: Entry[PrometheusTable]) -> str:
    url = entry.table.url or ("" if exporter_address(scope) else scope.tables.elastic.table.metrics_endpoint or "")
    if not url and _is_read(scope):
        scope.findings.problem(
            entry.at("url"),
            'is required and missing: [controller] source is "prometheus"',
            also=[scope.tables.controller.at("source")],
        )
    if url.rstrip("/").endswith("/api/v1"):
        scope.findings.problem(entry.at("url"), "must be the address before /api/v1")
    return url


def _headers(scope: Scope, entry: Entry[PrometheusTable]) -> tuple[tuple[str, str], ...]:
    table = entry.table
    found = dict(table.headers)
    for name, file in table.header_files.items():
        found[name] = scope.secret(file, (*entry.at("header_files"), name), "header's value", words=True)
    for name in found:
        place = (*entry.at("header_files" if name in table.header_files else "headers"), name)
        if name.lower() in _OURS:
            scope.findings.problem(place, "is set by the request itself and cannot be given")
        elif name.lower() == "authorization" and name in table.headers:
            scope.findings.problem(place, "is a secret: name the file that holds it in header_files")
    values = _authorization(scope, entry)
    if len(values) + sum(name.lower() == "authorization" for name in found) > 1:
        scope.findings.problem(entry.path, "signs on in two ways: keep one of token_file, username and Authorization")
    return (*sorted(found.items()), *(("Authorization", value) for value in values))


def _authorization(scope: Scope, entry: Entry[PrometheusTable]) -> list[str]:
    """The values of an `Authorization` header by token (RFC 6750) and by user (RFC 7617)."""
    table, found = entry.table, []
    if table.token_file is not None:
        found.append("Bearer " + scope.secret(table.token_file, entry.at("token_file"), "token"))
    if (table.username is None) != (table.password_file is None):
        missing = "password_file" if table.password_file is None else "username"
        scope.findings.problem(entry.at(missing), "is required and missing: a user and a password go together")
    elif table.username is not None:
        password = scope.secret(table.password_file, entry.at("password_file"), "password", words=True)
        found.append("Basic " + base64.b64encode(f"{table.username}:{password}".encode()).decode())
    url = _url_of(scope, entry)
    if found and url.startswith("http://") and not is_loopback(host_of(url)):
        scope.findings.note(
            entry.at("url"), "is http:// beyond loopback: the password crosses the network in the clear"
        )
    return found


def _url_of(scope: Scope, entry: Entry[PrometheusTable]) -> str:
    return entry.table.url or scope.tables.elastic.table.metrics_endpoint or ""


def _ca_file(scope: Scope, entry: Entry[PrometheusTable]) -> str:
    written = entry.table.ca_file
    if written is None:
        return ""
    file = scope.path(written)
    if scope.present(written, entry.at("ca_file")):
        try:
            ssl.create_default_context(cafile=str(file))
        except OSError as error:
            why = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
            scope.findings.problem(entry.at("ca_file"), f"{file} cannot be used: {why}")
    return str(file)
