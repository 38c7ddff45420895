"""The short form that many teams copy into the long one: `[elastic]` and `[pd_separation]`, two pools each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.config.findings import Findings
from tidegate.config.schema_fleet import FlavourTable, PoolTable, ServiceTable
from tidegate.config.schema_policies import ThresholdTable
from tidegate.config.tables import Entry, Tables
from tidegate.model.fleet import PoolKind, PoolRole
from tidegate.model.policy import PolicyName

ELASTIC_SERVICE = "default"
PD_SERVICE = "pd_separation"
BASE_POOL = "base_pool"
BURST_POOL = "burst_pool"

_BOUNDS = (
    "base_pool_min_replicas",
    "base_pool_max_replicas",
    "burst_pool_min_replicas",
    "burst_pool_max_replicas",
)
_KNOBS = ("scale_out_threshold_gpu_util", "scale_in_threshold_gpu_util", "cooldown_seconds")
_NO_KEYS: Mapping[str, str] = dict.fromkeys(("name", "service", "kind", "role", "gpus_per_replica", "flavour"), "")


def expand(tables: Tables, findings: Findings) -> Tables:
    """The tables with the short form's services and pools among the others; both forms for one thing is a problem."""
    services: list[Entry[ServiceTable]] = []
    pools: list[Entry[PoolTable]] = []
    for name, wanted, made in (
        ("elastic", _elastic_has_pools(tables), _elastic_pools),
        ("pd_separation", _pd_is_on(tables, findings), _pd_pools),
    ):
        if wanted and not _both_forms(tables, findings, name):
            service = _service(tables, name)
            services.append(service)
            pools.extend(made(tables, service.table.name))
    return replace(tables, services=(*tables.services, *services), pools=(*tables.pools, *pools))


def _elastic_has_pools(tables: Tables) -> bool:
    return any(tables.elastic.has(key) for key in (*_BOUNDS, *_KNOBS))


def _pd_is_on(tables: Tables, findings: Findings) -> bool:
    if "pd_separation" not in tables.present:
        return False
    if tables.pd_separation.table.coordinator:
        findings.note(tables.pd_separation.at("coordinator"), "not ours (the gateway's); nothing was read from it")
    if not tables.pd_separation.table.enable:
        findings.note(tables.pd_separation.at("enable"), "is false: no prefill and decode pools are made")
    return tables.pd_separation.table.enable


def _both_forms(tables: Tables, findings: Findings, name: str) -> bool:
    long = next((kind for kind in ("pool", "service") if kind in tables.present), None)
    if long is not None:
        findings.problem(
            (name,),
            f"makes pools, and so does [[{long}]] in line {findings.line((long,))}: keep one of the two forms"
            " (docs/configure.md shows what the short form stands for)",
        )
    return long is not None


def _service(tables: Tables, name: str) -> Entry[ServiceTable]:
    """The service of a short form; both are decided by GPU utilisation with the knobs of `[elastic]`."""
    elastic = tables.elastic
    given = {key: getattr(elastic.table, key) for key in _KNOBS if elastic.has(key)}
    service = ServiceTable(
        name=ELASTIC_SERVICE if name == "elastic" else PD_SERVICE,
        policy=PolicyName.THRESHOLD,
        threshold=ThresholdTable(**given),
    )
    place = "elastic" if "elastic" in tables.present else name
    return Entry(service, (place,), {**_NO_KEYS, "threshold": "", "policy": ""})


def _elastic_pools(tables: Tables, service: str) -> list[Entry[PoolTable]]:
    """`base_pool` from the base bounds, `burst_pool` from the burst bounds; a bound not given is the other one."""
    pools = []
    for name, kind, least in ((BASE_POOL, PoolKind.BASE, 1), (BURST_POOL, PoolKind.BURST, 0)):
        low_key, high_key = f"{name}_min_replicas", f"{name}_max_replicas"
        low, high = getattr(tables.elastic.table, low_key), getattr(tables.elastic.table, high_key)
        low = min(least, high if high is not None else least) if low is None else low
        high = low if high is None else high
        pool = PoolTable(name=name, service=service, kind=kind, min=low, max=high, flavour=_flavours(tables))
        pools.append(Entry(pool, ("elastic",), {**_NO_KEYS, "min": low_key, "max": high_key}))
    return pools


def _pd_pools(tables: Tables, service: str) -> list[Entry[PoolTable]]:
    """A prefill and a decode pool, each with a fixed number of replicas."""
    pools = []
    for role in (PoolRole.PREFILL, PoolRole.DECODE):
        name, replicas = f"{role}_pool", f"{role}_replicas"
        count = getattr(tables.pd_separation.table, replicas)
        pool = PoolTable(
            name=getattr(tables.pd_separation.table, name),
            service=service,
            role=role,
            min=count,
            max=count,
            flavour=_flavours(tables),
        )
        spelling = {**_NO_KEYS, "name": name, "min": replicas, "max": replicas}
        pools.append(Entry(pool, ("pd_separation",), spelling))
    return pools


def _flavours(tables: Tables) -> tuple[FlavourTable, ...]:
    """The short form has no words for where replicas run: the file's only template, on the file's hosts, if any."""
    names = [entry.table.name for entry in tables.templates]
    if len(names) != 1 or not names[0] or not tables.hosts:
        return ()
    return (FlavourTable(template=names[0]),)
