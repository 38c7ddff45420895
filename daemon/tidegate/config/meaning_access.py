"""How an engine's page is reached: its whole address, what is sent along, whose certificate is good."""

from __future__ import annotations

import base64
import ssl
from datetime import timedelta
from urllib.parse import urlsplit

from tidegate.config.addresses import metrics_url
from tidegate.config.schema_roles import EngineTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry

_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "host", "transfer-encoding", "user-agent"}
)
"""Headers that a scrape sets itself."""


def page_url(scope: Scope, entry: Entry[EngineTable]) -> str:
    """The full address of the engine's page."""
    table = entry.table
    if table.path is None:
        return metrics_url(table.url)
    parts = urlsplit(table.url)
    if parts.path.strip("/") or parts.query:
        scope.findings.problem(entry.at("path"), "url has a path already: keep one of the two", also=[entry.at("url")])
    return f"{parts.scheme}://{parts.netloc}{table.path}"


def request_headers(scope: Scope, entry: Entry[EngineTable]) -> tuple[tuple[str, str], ...]:
    """The user and password, and the headers that come from files."""
    headers = [(name, _header(scope, entry, name)) for name in entry.table.header_files]
    given = _basic(scope, entry)
    if given:
        headers.append(("Authorization", given))
    names = [name.lower() for name, _ in headers] + ["authorization"] * (entry.table.token_file is not None)
    if names.count("authorization") > 1:
        place = "username" if entry.table.username else "header_files"
        scope.findings.problem(
            entry.at(place), "is a second way to sign on: keep one of token_file, username and an Authorization header"
        )
    return tuple(headers)


def _header(scope: Scope, entry: Entry[EngineTable], name: str) -> str:
    place = (*entry.at("header_files"), name)
    if name.lower() in _OURS:
        scope.findings.problem(place, "is set by the scrape itself and cannot be given")
    value = scope.secret(entry.table.header_files[name], place, "header's value", words=True)
    if not value.isascii() or not value.isprintable():
        scope.findings.problem(place, "the value in that file has characters that no header has")
    return value


def _basic(scope: Scope, entry: Entry[EngineTable]) -> str:
    """The value of a Basic `Authorization` header (RFC 7617); empty without a user."""
    user, file = entry.table.username, entry.table.password_file
    if (user is None) != (file is None):
        missing = "password_file" if file is None else "username"
        scope.findings.problem(entry.at(missing), "is required and missing: a user and a password go together")
        return ""
    if user is None:
        return ""
    password = scope.secret(file, entry.at("password_file"), "password", words=True)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def trusted(scope: Scope, entry: Entry[EngineTable]) -> str:
    """The file of authorities; empty for those of the system. Notes what is not checked."""
    table = entry.table
    if table.insecure_skip_verify:
        scope.findings.note(
            entry.at("insecure_skip_verify"), "any certificate is taken: whoever sits between reads what is sent along"
        )
    if table.ca_file is None:
        return ""
    file = scope.path(table.ca_file)
    if not table.url.startswith("https://"):
        scope.findings.note(entry.at("ca_file"), "is not used: the address is not https://")
    if table.insecure_skip_verify:
        scope.findings.problem(entry.at("ca_file"), "contradicts insecure_skip_verify: keep one of the two")
    elif scope.present(table.ca_file, entry.at("ca_file")):
        try:
            ssl.create_default_context(cafile=str(file))
        except OSError as error:
            why = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
            scope.findings.problem(entry.at("ca_file"), f"{file} cannot be used: {why}")
    return str(file)


def scrape_timeout(scope: Scope, entry: Entry[EngineTable], interval: timedelta) -> timedelta | None:
    """The engine's own time-out, which is no longer than the interval between two readings."""
    timeout = entry.table.timeout_seconds
    if timeout is not None and timeout > interval:
        scope.findings.problem(
            entry.at("timeout_seconds"),
            f"must be at most the interval between two readings, {interval.total_seconds():g} seconds",
            also=[scope.tables.agent.at("interval_seconds")],
        )
    return timeout
