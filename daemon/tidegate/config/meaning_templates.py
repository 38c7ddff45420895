"""What the templates mean: units and commands in which every placeholder is known and no two replicas meet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.act.fill import PLACEHOLDERS
from tidegate.config.fields import did_you_mean
from tidegate.config.lines import KeyPath
from tidegate.config.schema_fleet import FlavourTable, PoolTable
from tidegate.config.schema_roles import TemplateTable
from tidegate.config.scope import Scope
from tidegate.config.settings import TemplateKind, TemplateSettings
from tidegate.config.tables import Entry

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TELLS_APART = ("{slot}", "{port}", "{replica_id}")
"""Each differs between the replicas of one host."""


def template_settings(scope: Scope) -> tuple[TemplateSettings, ...]:
    """Every `[[template]]`, in the order of the file."""
    templates = []
    for entry in scope.unique(scope.tables.templates, "template"):
        _check_kind(scope, entry)
        _check_placeholders(scope, entry)
        _check_apart(scope, entry)
        _check_grace(scope, entry)
        table = entry.table
        templates.append(
            TemplateSettings(
                name=table.name,
                kind=table.kind,
                metrics_url=table.metrics_url,
                unit=table.unit,
                command=table.command,
                environment=dict(table.environment),
                stop_timeout=table.stop_timeout_seconds,
                drain_grace=table.drain_grace_seconds,
            )
        )
    return tuple(templates)


def _check_kind(scope: Scope, entry: Entry[TemplateTable]) -> None:
    needed, foreign = ("unit", "command") if entry.table.kind is TemplateKind.SYSTEMD else ("command", "unit")
    if not getattr(entry.table, needed):
        scope.findings.problem(
            entry.at(needed), f'is required and missing: the kind is "{entry.table.kind}"', also=[entry.at("kind")]
        )
    if getattr(entry.table, foreign):
        scope.findings.problem(
            entry.at(foreign), f'has no meaning with the kind "{entry.table.kind}"', also=[entry.at("kind")]
        )


def _texts(entry: Entry[TemplateTable]) -> Iterator[tuple[KeyPath, str]]:
    """Everything in which placeholders are filled."""
    yield entry.at("unit"), entry.table.unit
    yield entry.at("metrics_url"), entry.table.metrics_url
    for position, argument in enumerate(entry.table.command):
        yield (*entry.at("command"), position), argument
    for name, value in entry.table.environment.items():
        yield (*entry.at("environment"), name), value


def _check_placeholders(scope: Scope, entry: Entry[TemplateTable]) -> None:
    """A word in braces that is none of ours would reach the engine as it stands; JSON in braces may."""
    for place, text in _texts(entry):
        for word in _PLACEHOLDER.findall(text):
            if word not in PLACEHOLDERS:
                hint = did_you_mean(word, list(PLACEHOLDERS))
                scope.findings.problem(place, f"{{{word}}} is no placeholder; {hint}")


def _check_apart(scope: Scope, entry: Entry[TemplateTable]) -> None:
    """Where a host has room for two replicas of a template, the two must not be the same unit or listen alike."""
    if entry.table.kind is TemplateKind.SYSTEMD:
        place, texts = entry.at("unit"), [entry.table.unit]
    else:
        place, texts = entry.at("command"), [*entry.table.command, *entry.table.environment.values()]
    if any(word in text for word in _TELLS_APART for text in texts) or not any(texts):
        return
    crowded = next(_crowded_hosts(scope, entry.table.name), None)
    remedy = 'name the unit by its slot: unit = "vllm@{slot}.service"' * (place[-1] == "unit") or "use {port} in it"
    if crowded:
        scope.findings.problem(
            place,
            f"must hold {{slot}}: host {crowded} has room for more than one; {remedy}",
            also=[entry.at("kind")],
        )
    elif not scope.tables.named["host"]:
        scope.findings.note(place, f"serves for one replica on this host; for more, {remedy}")


def _crowded_hosts(scope: Scope, template: str) -> Iterator[str]:
    for host in scope.tables.hosts:
        replicas = 0
        for pool in scope.tables.pools:
            flavours = _flavours(pool, template)
            if any(flavour.hosts is None or host.table.name in flavour.hosts for flavour in flavours):
                replicas += min(pool.table.max, host.table.gpus // pool.table.gpus_per_replica)
        if replicas > 1:
            yield host.table.name


def _check_grace(scope: Scope, entry: Entry[TemplateTable]) -> None:
    """An engine is not stopped within the grace; a drain that ends sooner would always be a cut."""
    for pool in scope.tables.pools:
        deadlines = [flavour.drain_deadline_seconds for flavour in _flavours(pool, entry.table.name)]
        if deadlines and entry.table.drain_grace_seconds >= min(deadlines):
            scope.findings.problem(
                entry.at("drain_grace_seconds"),
                f"must be below drain_deadline_seconds of the pool {pool.table.name}"
                f" ({min(deadlines).total_seconds():g}): else no drain ends in time",
            )


def _flavours(pool: Entry[PoolTable], template: str) -> list[FlavourTable]:
    return [flavour for flavour in pool.table.flavour if flavour.template == template]
