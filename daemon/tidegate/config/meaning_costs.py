"""What `[cost]` means for bills."""

from __future__ import annotations

from pathlib import Path

from tidegate.config.scope import Scope
from tidegate.model.allocation import CostPolicy


def cost_policy(scope: Scope) -> CostPolicy:
    """How charges become lines; which resource is which host stands in `[[bill_host]]`."""
    table = scope.tables.cost.table
    return CostPolicy(
        idle=table.idle,
        network=table.network,
        storage=table.storage,
        credits=table.credits,
        tax=table.tax,
        shared=table.shared,
        output_ratio=table.output_ratio,
        cached_ratio=table.cached_ratio,
    )


def traffic_file(scope: Scope) -> Path | None:
    """Where the gateway's counts by traffic class and tenant lie."""
    path = scope.tables.cost.table.traffic_file
    return scope.path(path) if path is not None else None
