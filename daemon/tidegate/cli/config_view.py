"""What a configuration file means, as data and as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.config.settings import EngineSettings, Settings
from tidegate.model.policy import Budget, Flavour, Mode, PolicyName, PoolPolicy, ServicePolicy

_MODES = {
    Mode.ADVISE: "decisions are recorded, not carried out",
    Mode.ACT: "decisions are carried out",
    Mode.PAUSED: "everything stays as it is; decisions are still recorded",
}


def as_data(file: Path, settings: Settings) -> dict[str, Any]:
    """For programs."""
    fleet, agent = settings.fleet, settings.agent
    return {
        "file": str(file),
        "ok": True,
        "mode": fleet.mode,
        "services": [{"name": each.name, "policy": each.policy} for each in fleet.services.values()],
        "pools": [_pool_data(each) for each in fleet.pools.values()],
        "hosts": [{"name": each.name, "gpus": each.gpus} for each in fleet.hosts.values()],
        "agent": agent.name if agent else None,
        "engines": [
            {"name": each.name, "url": each.url, "pool": each.pool} for each in (agent.engines if agent else ())
        ],
        "notes": list(settings.notes),
    }


def _pool_data(pool: PoolPolicy) -> dict[str, Any]:
    price = pool.first_flavour.price_per_gpu_hour
    return {
        "name": pool.name,
        "service": pool.service,
        "kind": pool.kind,
        "role": pool.role,
        "min": pool.min,
        "max": pool.max,
        "gpus_per_replica": pool.gpus_per_replica,
        "price_per_gpu_hour": None if price is None else str(price),
        "currency": pool.first_flavour.currency,
    }


def as_text(file: Path, settings: Settings) -> Iterator[str]:
    """For people, line by line."""
    fleet, agent = settings.fleet, settings.agent
    yield f"{file}: ok"
    yield f"  mode     {fleet.mode}: {_MODES[fleet.mode]}"
    for service in fleet.services.values():
        yield f"  service  {service.name}: {_policy(service)}"
    if fleet.budget.gpus is not None or fleet.budget.per_hour is not None:
        yield f"  budget   {_budget(fleet.budget, settings.currency)}"
    for pool in fleet.pools.values():
        yield f"  pool     {pool.name}: {_pool(pool)}"
    for host in fleet.hosts.values():
        yield f"  host     {host.name}: {_gpus(host.gpus)}, ports from {host.first_port}"
    if agent:
        yield f"  agent    {agent.name}: reports to {', '.join(agent.controllers) or 'no controller'}"
        for engine in agent.engines:
            yield f"  engine   {engine.name}: {_engine(engine)}"
    for note in settings.notes:
        yield f"note: {note}"


def _policy(service: ServicePolicy) -> str:
    match service.policy:
        case PolicyName.SLO:
            goal = service.slo
            return (
                f"slo, {goal.attainment:.4g} of requests within {goal.ttft_s:g} s to the first token and"
                f" {goal.tpot_s * 1000:g} ms for each after it"
            )
        case PolicyName.THRESHOLD:
            knobs = service.threshold
            return (
                f"threshold, out above {knobs.scale_out_above:.0%} GPU utilisation,"
                f" in below {knobs.scale_in_below:.0%}, cooldown {knobs.cooldown.total_seconds():g} s"
            )
        case PolicyName.TARGET:
            return (
                f"target, {service.target.in_flight_per_replica:g} requests in flight per replica,"
                f" cooldown {service.target.cooldown.total_seconds():g} s"
            )
        case PolicyName.SCHEDULE:
            return f"schedule, {service.schedule.replicas} replicas unless a pool's schedule says otherwise"
        case PolicyName.EXTERNAL:
            fallback = service.external.fallback
            otherwise = "as many as there are" if fallback is None else f"{fallback}"
            return f"external, as another program wishes; without a wish {otherwise}"


def _pool(pool: PoolPolicy) -> str:
    bounds = str(pool.min) if pool.min == pool.max else f"{pool.min} to {pool.max}"
    words = [pool.kind, pool.role, f"{bounds} x {_gpus(pool.gpus_per_replica)}", f"service {pool.service}"]
    words += [_flavour(flavour) for flavour in pool.flavours]
    if pool.schedules:
        words.append(f"{len(pool.schedules)} schedules" if len(pool.schedules) > 1 else "one schedule")
    return ", ".join(words)


def _flavour(flavour: Flavour) -> str:
    price = flavour.price_per_gpu_hour
    words = "no price" if price is None else f"{price} {flavour.currency} per GPU hour"
    return f"{words}, started by {flavour.template} on {', '.join(flavour.hosts)}" if flavour.template else words


def _budget(budget: Budget, currency: str) -> str:
    words = [] if budget.gpus is None else [f"at most {_gpus(budget.gpus)}"]
    if budget.per_hour is not None:
        words.append(f"at most {budget.per_hour} {currency} an hour")
    return ", ".join(words)


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _engine(engine: EngineSettings) -> str:
    return f"{engine.url}, pool {engine.pool}" if engine.pool else f"{engine.url}, in no pool"
