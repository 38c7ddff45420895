"""Whether two things that run on one machine want the same port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tidegate.config.addresses import host_of, is_loopback, port_of
from tidegate.config.lines import KeyPath
from tidegate.config.scope import Scope
from tidegate.config.settings import AgentSettings, Settings

_EVERY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class _Claim:
    who: str
    host: str
    first: int
    last: int
    path: KeyPath
    replica: bool = False
    """A slot's port or an engine's: the operator's engine may be in a slot's range only by mistake."""

    def meets(self, other: _Claim) -> bool:
        if self.last < other.first or other.last < self.first:
            return False
        hosts = {self.host, other.host}
        return len(hosts) == 1 or bool(hosts & _EVERY) or all(is_loopback(host) for host in hosts)


def check_ports(scope: Scope, settings: Settings) -> None:
    """Report every pair of claims that meet on the machine of this file's agent."""
    for one, other in combinations(_claims(scope, settings), 2):
        if one.meets(other):
            port = max(one.first, other.first)
            scope.findings.problem(
                other.path,
                f"{other.who} and {one.who} (line {scope.findings.line(one.path)}) both want port {port}",
                also=[one.path],
            )


def _claims(scope: Scope, settings: Settings) -> Iterator[_Claim]:
    if "controller" in scope.tables.present:
        listen = settings.controller.listen
        yield _Claim("the controller", listen.host, listen.port, listen.port, scope.tables.controller.at("listen"))
    if settings.agent is not None and settings.agent.export_metrics:
        listen, seen = settings.agent.listen, scope.tables.observability
        path = seen.at("metrics_port") if seen.has("metrics_port") else scope.tables.agent.at("listen")
        yield _Claim("the agent", listen.host, listen.port, listen.port, path)
    if settings.agent is not None:
        yield from _slots(scope, settings.agent)
        yield from _engines(scope, settings.agent)


def _slots(scope: Scope, agent: AgentSettings) -> Iterator[_Claim]:
    for host in scope.tables.hosts:
        if host.table.name == agent.name and any(pool.table.flavour for pool in scope.tables.pools):
            first = host.table.first_port
            last = first + host.table.gpus - 1
            yield _Claim(f"a replica on {agent.name}", "0.0.0.0", first, last, host.at("first_port"))  # noqa: S104


def _engines(scope: Scope, agent: AgentSettings) -> Iterator[_Claim]:
    local = {engine.name: engine.url for engine in agent.engines if is_loopback(host_of(engine.url))}
    for entry in scope.tables.engines:
        port = port_of(local.get(entry.table.name, ""))
        if port is not None:
            yield _Claim(f"the engine {entry.table.name}", "127.0.0.1", port, port, entry.at("url"))
