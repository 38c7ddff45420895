"""Where a charge goes: to a host, spread by a key, or to a line of its own. Nothing is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tidegate.cost.hosts import HostNames
from tidegate.model.allocation import Apart, CostPolicy, LineKind
from tidegate.model.charge import Charge, ChargeCategory, CommitmentStatus, ServiceClass


class Way(StrEnum):
    """How a charge finds its lines."""

    HOST = "host"
    SPREAD = "spread"
    PLAIN = "plain"


class Key(StrEnum):
    """What a spread charge is spread by; the method on its lines, with what stood in for it."""

    BYTES = "bytes"
    SIZE = "size"
    GPU_TIME = "gpu_time"


class Route(NamedTuple):
    """One way."""

    way: Way
    kind: LineKind
    hosts: tuple[str, ...] = ()
    key: str = ""
    method: str = ""
    resource: str = ""


_SPREAD = Route(Way.SPREAD, LineKind.SHARED)
_KEYS = {ServiceClass.NETWORK: Key.BYTES, ServiceClass.STORAGE: Key.SIZE}


@dataclass(frozen=True, slots=True)
class Router:
    """Knows our hosts and the operator's policy."""

    names: HostNames
    policy: CostPolicy

    def route(self, charge: Charge) -> Route:
        """The way of one charge."""
        if charge.category is ChargeCategory.TAX:
            return _apart(self.policy.tax, LineKind.TAX)
        hosts, method = self.names.find(charge)
        if hosts:
            return Route(Way.HOST, LineKind.UNOBSERVED, hosts, method=method)
        if charge.category is ChargeCategory.CREDIT:
            return _apart(self.policy.credits, LineKind.CREDIT)
        if _commitment(charge):
            return Route(Way.PLAIN, LineKind.COMMITMENT, method="commitment", resource=charge.commitment_id)
        if _rounding(charge):
            return Route(Way.PLAIN, LineKind.ROUNDING)
        return self._of_nobody(charge)

    def _of_nobody(self, charge: Charge) -> Route:
        key, resource = _KEYS.get(charge.service), charge.resource_id
        if key and (self.policy.network if key is Key.BYTES else self.policy.storage) is Apart.SPREAD:
            return _SPREAD._replace(key=key.value, resource=resource)
        if self._shared(charge):
            return _SPREAD._replace(key=Key.GPU_TIME.value)
        if charge.service is ServiceClass.COMPUTE and resource:
            return Route(Way.PLAIN, LineKind.UNATTRIBUTED_HOST, resource=resource)
        return Route(Way.PLAIN, LineKind.UNATTRIBUTED_CHARGE, resource=resource or charge.sku or charge.service_name)

    def _shared(self, charge: Charge) -> bool:
        text = f"{charge.service_name}\n{charge.sku}\n{charge.description}".casefold()
        return any(word.casefold() in text for word in self.policy.shared)


def _apart(policy: Apart, kind: LineKind) -> Route:
    if policy is Apart.SPREAD:
        return _SPREAD._replace(key=Key.GPU_TIME.value)
    return Route(Way.PLAIN, kind)


def _commitment(charge: Charge) -> bool:
    if charge.commitment_status is CommitmentStatus.UNUSED:
        return True
    return bool(charge.commitment_id) and (
        charge.category is ChargeCategory.PURCHASE or charge.commitment_status is CommitmentStatus.NONE
    )


def _rounding(charge: Charge) -> bool:
    if charge.category is not ChargeCategory.ADJUSTMENT and charge.resource_id:
        return False
    text = f"{charge.sku} {charge.service_name} {charge.description}".casefold()
    return charge.category is ChargeCategory.ADJUSTMENT and "round" in text
