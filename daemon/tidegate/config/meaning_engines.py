"""What the engines mean that an agent reads: `[[engine]]`, the gateway's addresses, `[elastic] metrics_endpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from tidegate.config.lines import KeyPath
from tidegate.config.meaning_access import page_url, request_headers, scrape_timeout, trusted
from tidegate.config.schema_roles import EngineTable
from tidegate.config.scope import Scope
from tidegate.config.settings import EngineSettings
from tidegate.config.short_form import BASE_POOL
from tidegate.config.tables import Entry
from tidegate.model.fleet import PoolName, PoolRole
from tidegate.model.policy import PoolPolicy

Pools = dict[PoolName, PoolPolicy]
EXPORTER = "metrics_endpoint"
"""The name of the engine that `[elastic] metrics_endpoint` stands for."""


def exporter_address(scope: Scope) -> str:
    """`[elastic] metrics_endpoint` when it names an exporter's page; empty when it names a Prometheus, or is absent."""
    url = scope.tables.elastic.table.metrics_endpoint
    return url if url is not None and urlsplit(url).path.rstrip("/").endswith("/metrics") else ""


def engine_settings(scope: Scope, pools: Pools, interval: timedelta) -> tuple[EngineSettings, ...]:
    """Every engine, the operator's own entries first; none is read twice."""
    engines: list[EngineSettings] = []
    first: dict[str, KeyPath] = {}
    for entry in scope.unique(scope.tables.engines, "engine"):
        engine = _engine(scope, entry, pools, interval)
        if engine.url in first:
            line = scope.findings.line(first[engine.url])
            scope.findings.problem(entry.at("url"), f"is the address of the engine in line {line} already")
        first.setdefault(engine.url, entry.at("url"))
        engines.append(engine)
    for engine, path in (*_foreign(scope, pools), *_exporter(scope, pools)):
        if engine.url in first:
            scope.findings.note(path, f"is the engine in line {scope.findings.line(first[engine.url])}; read once")
        elif engine.name in {each.name for each in engines}:
            scope.findings.note(path, f"left out: an [[engine]] is called {engine.name} already")
        else:
            first[engine.url] = path
            engines.append(engine)
    return tuple(engines)


def _engine(scope: Scope, entry: Entry[EngineTable], pools: Pools, interval: timedelta) -> EngineSettings:
    table = entry.table
    is_gateway = table.kind is not None and table.kind.is_gateway
    if is_gateway and table.pool:
        scope.findings.problem(
            entry.at("pool"),
            f"is given to a {table.kind}, which stands in front of replicas and is none; leave it out (a service says"
            " where it belongs)",
        )
    if scope.tables.templates and not table.gpu_indices and not is_gateway:
        scope.findings.note(
            entry.path, "has no gpu_indices: on a host where it is not known which GPUs are taken, nothing is started"
        )
    return EngineSettings(
        name=table.name,
        url=page_url(scope, entry),
        pool=table.pool or "",
        service=_service(scope, entry, pools),
        gpus=_gpus(scope, entry),
        gpu_indices=table.gpu_indices,
        token=scope.secret(table.token_file, entry.at("token_file"), "engine's token"),
        kind=table.kind,
        headers=request_headers(scope, entry),
        ca_file=trusted(scope, entry),
        verify=not table.insecure_skip_verify,
        timeout=scrape_timeout(scope, entry, interval),
        min_interval=table.min_interval_seconds,
        traffic=table.traffic,
    )


def _service(scope: Scope, entry: Entry[EngineTable], pools: Pools) -> str:
    """The engine's service: its own word, or its pool's; names are checked where the file knows any."""
    table = entry.table
    pool = pools.get(PoolName(table.pool)) if table.pool else None
    if table.pool and pool is None and (pools or scope.tables.named["pool"]) and not scope.known(table.pool, "pool"):
        scope.findings.problem(entry.at("pool"), scope.unknown(table.pool, "pool", pools))
    if table.service is None:
        return pool.service if pool else ""
    services = {each.service for each in pools.values()} | scope.tables.named["service"]
    if services and table.service not in services:
        scope.findings.problem(entry.at("service"), scope.unknown(table.service, "service", services))
    elif pool is not None and pool.service and pool.service != table.service:
        scope.findings.problem(
            entry.at("service"), f"is {table.service}, but its pool {pool.name} belongs to {pool.service}"
        )
    return table.service


def _gpus(scope: Scope, entry: Entry[EngineTable]) -> int:
    indices = entry.table.gpu_indices
    if len(set(indices)) != len(indices):
        scope.findings.problem(entry.at("gpu_indices"), "names a GPU twice")
    if not indices:
        return entry.table.gpus
    if entry.has("gpus") and entry.table.gpus != len(indices):
        scope.findings.problem(
            entry.at("gpus"),
            f"is {entry.table.gpus}, but gpu_indices names {len(indices)}",
            also=[entry.at("gpu_indices")],
        )
    return len(indices)


def _foreign(scope: Scope, pools: Pools) -> Iterator[tuple[EngineSettings, KeyPath]]:
    """The addresses of `[pd_disaggregation]`, in the one pool of their role where there is one."""
    homeless = []
    for found in scope.foreign.engines:
        pool = _pool_of_role(pools, found.role)
        name, service = (pool.name, pool.service) if pool else ("", "")
        if pool is None and found.role not in homeless:
            homeless.append(found.role)
        yield EngineSettings(urlsplit(found.url).netloc, found.url, name, service), found.path
    if homeless:
        scope.findings.note(
            ("pd_disaggregation",),
            f"its {' and '.join(homeless)} engines belong to no pool;"
            " [pd_separation], or one [[pool]] of each role, gives them one",
        )


def _pool_of_role(pools: Pools, role: PoolRole) -> PoolPolicy | None:
    fitting = [pool for pool in pools.values() if pool.role is role]
    return fitting[0] if len(fitting) == 1 else None


def _exporter(scope: Scope, pools: Pools) -> Iterator[tuple[EngineSettings, KeyPath]]:
    url = exporter_address(scope)
    if url:
        pool = pools.get(PoolName(BASE_POOL))
        name, service = (pool.name, pool.service) if pool else ("", "")
        yield EngineSettings(EXPORTER, url, name, service), scope.tables.elastic.at("metrics_endpoint")
