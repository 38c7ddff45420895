"""Tables of the gateway and of the engine in the same file: read for what concerns us, else noted, never refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.config.addresses import metrics_url, url_problem
from tidegate.config.complaint import is_secret
from tidegate.config.document import Document
from tidegate.config.findings import Findings
from tidegate.config.lines import KeyPath
from tidegate.model.fleet import PoolRole

FOREIGN: Mapping[str, str] = {
    "gateway": "the gateway's",
    "cache": "the gateway's",
    "routing": "the gateway's",
    "server": "the engine's",
    "model": "the engine's",
    "kv_cache": "the engine's",
    "pd_disaggregation": "the engine's",
    "llm": "the client's",
    **dict.fromkeys(("api_base", "api_key_env", "api_key", "base_url", "default_model"), "the client's"),
    **dict.fromkeys(("timeout", "timeout_seconds", "max_retries", "retry_backoff"), "the client's"),
    **dict.fromkeys(("max_tokens", "extra_body"), "the client's"),
}
"""Whose each table (or key outside every table) is."""

_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class ForeignEngine:
    """An engine's address that `[pd_disaggregation]` names."""

    role: PoolRole
    url: str
    """Of its metrics page."""
    path: KeyPath


@dataclass(frozen=True, slots=True)
class RoutedPool:
    """A pool name that the gateway's rules send requests to."""

    name: str
    path: KeyPath


@dataclass(frozen=True, slots=True)
class Foreign:
    """What other programs' tables tell us."""

    engines: tuple[ForeignEngine, ...] = ()
    routed: tuple[RoutedPool, ...] = ()


def read_foreign(document: Document, findings: Findings) -> Foreign:
    """Take engine addresses and pool names; leave a note on everything else, and on secrets in the file."""
    foreign = Foreign(tuple(_engines(document.data, findings)), tuple(_routed(document.data)))
    for name in document.data:
        if name in FOREIGN:
            findings.note((name,), f"not ours ({FOREIGN[name]}); {_what_was_read(name, foreign)}")
            for path in _secrets(document.data[name], (name,)):
                findings.note(path, "a secret stands in the file: whoever can read the file has it; keep it elsewhere")
    return foreign


def _what_was_read(name: str, foreign: Foreign) -> str:
    if name == "pd_disaggregation" and foreign.engines:
        return f"{len(foreign.engines)} engine addresses were read from it"
    if any(pool.path[0] == name for pool in foreign.routed):
        return "the names of the pools that it routes to were read"
    return "nothing was read from it"


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _engines(data: Mapping[str, Any], findings: Findings) -> Iterator[ForeignEngine]:
    table = _table(data.get("pd_disaggregation"))
    if table.get("enabled", table.get("enable", True)) is False:
        return
    seen: set[str] = set()
    for key, role in (("prefill_instances", PoolRole.PREFILL), ("decode_instances", PoolRole.DECODE)):
        for position, address in enumerate(_list(table.get(key))):
            path: KeyPath = ("pd_disaggregation", key, position)
            if not isinstance(address, str) or url_problem(address):
                findings.note(path, "is not an http address; left out")
            elif metrics_url(address) in seen:
                findings.note(path, "this address stands twice; read once")
            else:
                seen.add(metrics_url(address))
                yield ForeignEngine(role, metrics_url(address), path)


def _routed(data: Mapping[str, Any]) -> Iterator[RoutedPool]:
    rules = _table(_table(data.get("gateway")).get("rules"))
    for position, rule in enumerate(_list(rules.get("match"))):
        name = _table(rule).get("target_pool")
        if isinstance(name, str):
            yield RoutedPool(name, ("gateway", "rules", "match", position, "target_pool"))
    name = _table(data.get("routing")).get("fallback_pool")
    if isinstance(name, str):
        yield RoutedPool(name, ("routing", "fallback_pool"))


def _secrets(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    last = path[-1]
    if isinstance(value, str):
        if isinstance(last, str) and is_secret(last) and value:
            yield path
    elif len(path) < _DEEPEST:
        pairs = _table(value).items() or enumerate(_list(value))
        for key, inner in pairs:
            yield from _secrets(inner, (*path, key))
