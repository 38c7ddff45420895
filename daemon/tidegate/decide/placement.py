"""Where new replicas go: free places in the operator's order, none of them given twice within one plan."""

from __future__ import annotations

from tidegate.model.fleet import Slot


class Places:
    """The places that one plan has given away; pools may offer the same GPUs."""

    def __init__(self) -> None:
        self._given: list[Slot] = []

    def take(self, slot: Slot) -> bool:
        """Give a place away, if it is still free."""
        free = not any(_collide(slot, other) for other in self._given)
        if free:
            self._given.append(slot)
        return free


def _collide(one: Slot, other: Slot) -> bool:
    if one.host != other.host:
        return False
    return one.slot == other.slot or one.port == other.port or not frozenset(one.gpus).isdisjoint(other.gpus)
