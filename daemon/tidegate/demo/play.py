"""Play a day on the stage, show it, sum it up."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from tidegate.demo import configuration
from tidegate.demo.bill import DemoBill
from tidegate.demo.fleet_history import FleetHistory
from tidegate.demo.live_view import Frame, rates, render
from tidegate.demo.pace import DAY, Pace
from tidegate.demo.plain_view import PlainView
from tidegate.demo.stage import Stage, StagePlan
from tidegate.demo.summary import Summary, summarize
from tidegate.demo.traffic import EVENT_END_HOUR, EVENT_START_HOUR
from tidegate.demo.verdicts import SETTLE_WITHIN, Facts, settled
from tidegate.link.messages import CostShape, CostsShape
from tidegate.model.money import CostState
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.errors import Transient

WARM_UP = timedelta(seconds=15)
"""Real time before the day's midnight, for a database to be made and the base pool to load."""
LOOK_EVERY = timedelta(seconds=0.5)
"""Real time between two looks at the controller."""
COST_EVERY_LOOKS = 6
SHARED_OUT_WITHIN = timedelta(seconds=20)
"""Real time in which a bill must be shared out."""
AT_REST_FOR = timedelta(seconds=3)
"""Real time at the end in which the last reports are counted."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    once: bool = False
    as_json: bool = False
    minutes: float = 2.5
    folder: Path | None = None
    keep: bool = False
    seed: int = 1


class Play:
    """One demo from curtain to curtain."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._plain = PlainView()
        self._fleet = FleetHistory()
        self._cost: CostShape | None = None
        self._away = False
        self._looks = 0
        pace = Pace.of_minutes(options.minutes)
        yesterday = SystemClock().now() - timedelta(days=1)
        self._midnight = yesterday.replace(hour=0, minute=0, second=0, microsecond=0)
        epoch = self._midnight - WARM_UP * pace.speed
        self._plan = StagePlan(pace, epoch, self._midnight, options.seed, folder=options.folder, keep=options.keep)

    def run(self) -> Summary:
        """Start everything, play the day, sum it up, end everything.

        Without `once` time goes on after the summary until Ctrl-C (KeyboardInterrupt). Raises Permanent when a part of
        the demo breaks. Nothing is left running, whatever happens.
        """
        with _interruptible(), Stage(self._plan) as stage, self._farewell(), self._view() as live:
            self._until(stage, live, lambda: stage.clock.now() >= self._day_end)
            if self._options.once:
                stage.gateway.close_doors(self._day_end)
            summary = self._sum_up(stage, live)
            if not self._options.once:
                self.tell(summary)
                self._until(stage, live, lambda: False)
        return summary

    def tell(self, summary: Summary) -> None:
        """Print the verdicts."""
        self._console.print(f"\nThe day {self._midnight:%d %B %Y}, played in {self._options.minutes:g} minutes:")
        for verdict in summary.verdicts:
            mark = "[green]✓[/]" if verdict.ok else "[red]✗[/]"
            self._console.print(f"  {mark} {escape(verdict.text)}", highlight=False, soft_wrap=True)
        if not summary.ok:
            self._console.print(
                "On a slow or busy machine a slower day may keep more of it: tidegate demo --minutes 10"
            )

    @property
    def _day_end(self) -> datetime:
        return self._midnight + DAY

    def _sum_up(self, stage: Stage, live: Live | None) -> Summary:
        deadline, resting = self._day_end + SETTLE_WITHIN, [0]

        def at_rest() -> bool:
            counts = stage.gateway.counts()
            served = not self._options.once or counts.arrived == counts.finished + counts.lost
            quiet = served and settled(self._fleet, configuration.BURST, stage.receiver.deliveries())
            resting[0] = resting[0] + 1 if quiet else 0
            return resting[0] * LOOK_EVERY >= AT_REST_FOR or stage.clock.now() >= deadline

        self._until(stage, live, at_rest)
        estimated = stage.client.costs(self._midnight, self._day_end)
        billed = self._bill(stage, live)
        return summarize(
            Facts(
                since=self._midnight,
                speed=self._plan.pace.speed,
                counts=stage.gateway.counts(),
                closed=self._options.once,
                fleet=self._fleet,
                costs=estimated,
                billed=billed,
                bill_total=self._bill_of(stage).total(),
                tokens=float(stage.client.costs(self._plan.epoch, stage.clock.now()).total.tokens or 0),
                deliveries=stage.receiver.deliveries(),
                burst=configuration.BURST,
                event=(
                    self._midnight + timedelta(hours=EVENT_START_HOUR),
                    self._midnight + timedelta(hours=EVENT_END_HOUR) + self._plan.pace.alert_shows,
                ),
            )
        )

    def _bill_of(self, stage: Stage) -> DemoBill:
        return DemoBill(self._midnight, {host.name: host.gpus for host in stage.hosts})

    def _bill(self, stage: Stage, live: Live | None) -> tuple[CostsShape, ...]:
        """Let the day's bill come: preliminary, invoiced, corrected; what the day cost after each."""
        bill = self._bill_of(stage)
        found: list[CostsShape] = []
        for name, text, state in (
            ("preliminary.csv", bill.preliminary(), CostState.PARTIAL),
            ("invoiced.csv", bill.invoiced(), CostState.FINAL),
            ("corrected.csv", bill.corrected(), CostState.FINAL),
        ):
            stage.import_bill(name, text)
            found.append(self._shared_out(stage, live, state, found[-1:]))
        return tuple(found)

    def _shared_out(
        self, stage: Stage, live: Live | None, state: CostState, before: Sequence[CostsShape]
    ) -> CostsShape:
        """What the day costs once the controller has shared out what was imported, or after a while all the same."""
        looks, newest = [0], [stage.client.costs(self._midnight, self._day_end)]

        def done() -> bool:
            looks[0] += 1
            newest[0] = stage.client.costs(self._midnight, self._day_end)
            fresh = not before or newest[0].total.amount != before[0].total.amount
            return (newest[0].total.state is state and fresh) or looks[0] * LOOK_EVERY >= SHARED_OUT_WITHIN

        self._until(stage, live, done)
        return newest[0]

    def _until(self, stage: Stage, live: Live | None, done: Callable[[], bool]) -> None:
        real, never = SystemClock(), Event()
        while not done():
            real.wait(never, LOOK_EVERY)
            stage.check()
            self._look(stage)
            self._show(stage, live)

    def _look(self, stage: Stage) -> None:
        self._looks += 1
        try:
            self._fleet.see(stage.client.status())
            if self._looks % COST_EVERY_LOOKS == 0 and stage.clock.now() > self._midnight:
                until = min(stage.clock.now(), self._day_end)
                self._cost = stage.client.costs(self._midnight, until).total
        except Transient:
            self._away = True
        else:
            self._away = False

    def _show(self, stage: Stage, live: Live | None) -> None:
        frame = Frame(
            now=stage.clock.now(),
            since=self._midnight,
            speed=self._plan.pace.speed,
            url=stage.client.url,
            counts=stage.gateway.counts(),
            traffic=rates(list(stage.gateway.history), self._midnight),
            fleet=self._fleet,
            cost=self._cost,
            deliveries=stage.receiver.deliveries(),
            controller_away=self._away,
        )
        if live is not None:
            live.update(render(frame, self._console.height), refresh=True)
            return
        for line in self._plain.lines(frame):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def _farewell(self) -> Iterator[None]:
        """Say at once that Ctrl-C was heard: ending everything in order takes a few seconds."""
        try:
            yield
        except KeyboardInterrupt:
            self._console.print("\nstopping engines, agents, controller and database ...")
            raise

    @contextmanager
    def _view(self) -> Iterator[Live | None]:
        if not self._console.is_terminal:
            yield None
            return
        with Live(console=self._console, auto_refresh=False, vertical_overflow="crop") as live:
            yield live


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does; while it ends, further ones change nothing."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def play(options: Options) -> int:
    """Play as asked; returns the exit code: 0 when every promise was kept, 1 when not, 130 when interrupted early."""
    console = Console(stderr=options.as_json)
    demo = Play(options, console)
    try:
        summary = demo.run()
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130 if options.once else 0
    if options.as_json:
        print(json.dumps(summary.data(), indent=2))
    demo.tell(summary)
    return 0 if summary.ok else 1
