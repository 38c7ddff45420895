"""Print a small table, and say whether every bound was kept."""

from __future__ import annotations

from collections.abc import Sequence


def show(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        first, *rest = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((first, *rest)))


class Bounds:
    """What was promised and what was measured."""

    def __init__(self) -> None:
        self.broken = 0

    def hold(self, what: str, *, kept: bool) -> None:
        """Say one of them."""
        print(f"{'kept  ' if kept else 'BROKEN'}  {what}")
        self.broken += not kept
