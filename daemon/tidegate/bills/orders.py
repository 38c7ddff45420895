"""From an import order to a pass over its files: what the controller's wiring hands to the book of bills."""

from __future__ import annotations

from pathlib import Path

from tidegate.bills.parts import Bundle, Part
from tidegate.bills.reading import Reading, Wishes
from tidegate.model.bill import ImportOrder
from tidegate.model.price import Prices


def reading_of(order: ImportOrder, prices: Prices) -> Reading:
    """Ready to be iterated."""
    parts = tuple(Part(part.name, Path(part.path), part.entry, part.hints, part.rows) for part in order.parts)
    bundle = Bundle(parts, tuple(dict.fromkeys(part.path for part in parts)), order.left_out)
    return Reading(bundle, Wishes(order.source, order.account, order.currency, order.shard, prices))
