"""How a scorecard is shown to a person, and the bar while it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tidegate.simulate.scorecard import HEADER, Score

NARROWEST = 118
"""Columns; a narrower terminal scrolls, for figures cut short are worse."""
Begin = Callable[[str], Callable[[float], None]]
"""Begin a run: what is done, and in return whom to tell the simulated second."""


def show(title: str, scores: Sequence[Score]) -> None:
    """Print the table."""
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0))
    for index, name in enumerate(HEADER):
        cells = [score.row()[index] for score in scores]
        table.add_column(
            name, justify="left" if index < 2 else "right", min_width=max(map(len, [*cells, *name.split()]))
        )
    for score in scores:
        table.add_row(*score.row())
    console = Console()
    console.print(table, width=max(NARROWEST, console.width), crop=False)


@contextmanager
def bar(seconds: float) -> Iterator[Begin]:
    """One line on standard error: the run under way and how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=seconds)

        def begin(doing: str) -> Callable[[float], None]:
            progress.reset(task, description=doing)
            return lambda now: progress.update(task, completed=now)

        yield begin
