"""Where new replicas go: free places in the operator's order, none of them given twice within one plan."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.model.fleet import Slot


class Places:
    """The places that one plan has given away; pools may offer the same GPUs."""

    def __init__(self) -> None:
        self._given: list[Slot] = []

    def take(self, offered: Iterable[Slot], count: int) -> tuple[Slot, ...]:
        """Up to `count` of the offered places, in their order; fewer when there are no more."""
        taken: list[Slot] = []
        for slot in offered:
            if len(taken) == count:
                break
            if not any(_collide(slot, other) for other in self._given):
                self._given.append(slot)
                taken.append(slot)
        return tuple(taken)


def _collide(one: Slot, other: Slot) -> bool:
    if one.host != other.host:
        return False
    return one.slot == other.slot or one.port == other.port or not frozenset(one.gpus).isdisjoint(other.gpus)
