"""What boards read, kept up to date beside the tick: newest figures of engines and GPUs, rollups of pools."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.controller.host_figures import engine_figures, gpu_figures
from tidegate.controller.past_ports import Figures
from tidegate.controller.state import State

RECORD_EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class Boards:
    """Each may be run again after any failure."""

    figures: Figures
    state: State
    _recorded: datetime | None = field(default=None, init=False)

    def record(self) -> None:
        """Keep what the last tick saw of engines and GPUs, once."""
        at, views = self.state.seen
        if at is None or at == self._recorded:
            return
        self.figures.record(list(engine_figures(views, at)), list(gpu_figures(views, at)))
        self._recorded = at
