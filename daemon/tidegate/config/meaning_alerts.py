"""What alerts and channels mean: rules that can fire and resolve, and addresses that may be told."""

from __future__ import annotations

import base64
import binascii
from ipaddress import ip_address

from tidegate.config.addresses import host_of, is_loopback, url_problem
from tidegate.config.schema_alerts import AlertTable, ChannelTable
from tidegate.config.scope import Scope
from tidegate.config.tables import Entry
from tidegate.model.policy import Channel, HitRateRule
from tidegate.model.usage import BUCKET

_KEY_BYTES = 24
"""The least key length of Standard Webhooks 1.0."""


def alert_rules(scope: Scope) -> tuple[HitRateRule, ...]:
    """Every `[[alert]]`, in the order of the file."""
    rules = []
    for entry in scope.unique(scope.tables.alerts, "alert"):
        _check_rule(scope, entry)
        table = entry.table
        rules.append(
            HitRateRule(
                name=table.name,
                window=table.window_seconds,
                baseline=table.baseline_hours,
                drop=table.drop,
                recover=table.recover,
                minimum_queries=table.minimum_queries,
                hold=table.hold_seconds,
                channels=table.channels,
            )
        )
    return tuple(rules)


def _check_rule(scope: Scope, entry: Entry[AlertTable]) -> None:
    table, findings = entry.table, scope.findings
    if table.recover >= table.drop:
        findings.problem(
            entry.at("recover" if entry.has("recover") else "drop"),
            f"recover ({table.recover:g}) must be below drop ({table.drop:g}): else the alert resolves while it fires",
            also=[entry.at("recover"), entry.at("drop")],
        )
    if table.window_seconds >= table.baseline_hours:
        findings.problem(
            entry.at("window_seconds" if entry.has("window_seconds") else "baseline_hours"),
            "the window must be shorter than the baseline that it is held against",
            also=[entry.at("window_seconds"), entry.at("baseline_hours")],
        )
    if table.window_seconds % BUCKET:
        findings.note(entry.at("window_seconds"), "is taken in whole five minutes, rounded down")
    for position, name in enumerate(table.channels):
        if not scope.known(name, "channel"):
            findings.problem((*entry.at("channels"), position), scope.unknown(name, "channel"))
    if not table.channels and not findings.doubted(entry.at("channels")):
        findings.note(entry.path, "has no channels: it shows on the status page and tells nobody")


def channels(scope: Scope) -> tuple[Channel, ...]:
    """Every `[[channel]]` with its address and key."""
    told = {name for entry in scope.tables.alerts for name in entry.table.channels}
    made = []
    for entry in scope.unique(scope.tables.channels, "channel"):
        made.append(
            Channel(
                name=entry.table.name,
                url=_url(scope, entry),
                secret=_secret(scope, entry),
                allow_private=entry.table.allow_private,
            )
        )
        if entry.table.name not in told:
            scope.findings.note(entry.path, "is named by no [[alert]]: it is never told anything")
    return tuple(made)


def _url(scope: Scope, entry: Entry[ChannelTable]) -> str:
    table, findings = entry.table, scope.findings
    key = "url_file" if table.url_file is not None else "url"
    if table.url is not None and table.url_file is not None:
        findings.problem(entry.at("url_file"), "says the same as url: keep one of the two")
    if table.url is None and table.url_file is None:
        findings.problem(entry.at("url"), "is required and missing (or url_file, when the address is itself a secret)")
    url = table.url or scope.secret(table.url_file, entry.at("url_file"), "webhook's address")
    problem = url and (url_problem(url) or _forbidden(url, allow_private=table.allow_private))
    if problem:
        findings.problem(entry.at(key), problem)
    return url


def _forbidden(url: str, *, allow_private: bool) -> str:
    """What the sender would refuse, as far as the address itself shows it; names are resolved only then."""
    host = host_of(url)
    try:
        address = ip_address(host)
    except ValueError:
        private = is_loopback(host)
    else:
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return "is a link-local or multicast address: such are never told anything"
        private = address.is_private
    return "is a private address; set allow_private = true if that is meant" if private and not allow_private else ""


def _secret(scope: Scope, entry: Entry[ChannelTable]) -> str:
    table, findings = entry.table, scope.findings
    if table.secret_file is not None and table.secret_env is not None:
        findings.problem(entry.at("secret_env"), "says the same as secret_file: keep one of the two")
    if table.secret_file is None and table.secret_env is None:
        findings.note(entry.path, "has no secret: its receiver cannot tell our messages from anybody's")
        return ""
    if table.secret_file is not None:
        place = entry.at("secret_file")
        secret = scope.secret(table.secret_file, place, "webhook's secret")
    else:
        place = entry.at("secret_env")
        value = scope.secrets.variable(table.secret_env or "")
        secret = (value or "").strip()
        if value is not None and not secret:
            findings.problem(place, f"the environment variable {table.secret_env} is not set")
    _check_key(scope, entry, secret)
    return secret


def _check_key(scope: Scope, entry: Entry[ChannelTable], secret: str) -> None:
    if not secret:
        return
    place = entry.at("secret_file" if entry.table.secret_file is not None else "secret_env")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        scope.findings.problem(place, "must be whsec_ and base64 (`openssl rand -base64 32` makes that part)")
        return
    if len(key) < _KEY_BYTES:
        scope.findings.note(place, f"is a key of {len(key)} bytes; Standard Webhooks asks for {_KEY_BYTES} or more")
