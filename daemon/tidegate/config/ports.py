"""Whether two things that run on one machine want the same port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from tidegate.config.addresses import host_of, is_loopback, port_of
from tidegate.config.lines import KeyPath
from tidegate.config.scope import Scope
from tidegate.config.settings import AgentSettings, Settings
from tidegate.model.policy import PoolPolicy

_EVERY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class _Claim:
    who: str
    host: str
    first: int
    last: int
    path: KeyPath
    read: bool = False
    """An address that is read, not listened on: several engines may stand behind one port, each under its path."""

    def meets(self, other: _Claim) -> bool:
        if self.read and other.read:
            return False
        if self.last < other.first or other.last < self.first or self.first == 0:  # 0 takes any free port
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
    if settings.agent is not None:
        listen, seen = settings.agent.listen, scope.tables.observability
        path = seen.at("metrics_port") if seen.has("metrics_port") else scope.tables.agent.at("listen")
        yield _Claim("the agent", listen.host, listen.port, listen.port, path)
        yield from _slots(scope, settings, settings.agent.name)
        yield from _engines(scope, settings.agent)


def _slots(scope: Scope, settings: Settings, name: str) -> Iterator[_Claim]:
    """The ports that replicas on this host may get: as many as fit of the smallest that may run there."""
    widths = [pool.gpus_per_replica for pool in settings.fleet.pools.values() if name in _hosts(pool)]
    for host in scope.tables.hosts:
        slots = host.table.gpus // min(widths) if widths and host.table.name == name else 0
        if slots:
            first = host.table.first_port
            yield _Claim(f"a replica on {name}", "0.0.0.0", first, first + slots - 1, host.at("first_port"))  # noqa: S104


def _hosts(pool: PoolPolicy) -> frozenset[str]:
    return frozenset(name for flavour in pool.flavours for name in flavour.hosts)


def _engines(scope: Scope, agent: AgentSettings) -> Iterator[_Claim]:
    local = {engine.name: engine.url for engine in agent.engines if is_loopback(host_of(engine.url))}
    for entry in scope.tables.engines:
        port = port_of(local.get(entry.table.name, ""))
        if port is not None:
            yield _Claim(f"the engine {entry.table.name}", "127.0.0.1", port, port, entry.at("url"), read=True)
