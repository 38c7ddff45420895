"""Put the front together: `python -m tidegate.controller.wiring_front`, started by a controller (`front.py`)."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from tidegate.controller.agents import Agents
from tidegate.controller.front import FrontSetup
from tidegate.controller.heard import Told
from tidegate.controller.intake import Intake
from tidegate.controller.left_out import LeftOut
from tidegate.controller.outbox import Outbox
from tidegate.controller.ports import Reports
from tidegate.controller.tokens import RENEW_EVERY, Tokens
from tidegate.controller.wishes import Wishes
from tidegate.link.bell import Bell
from tidegate.link.forward import Forward
from tidegate.link.report_endpoint import ReportEndpoint
from tidegate.model.scrape import Source
from tidegate.runtime.aside import Work, answer_calls
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.collector import EVERYTHING_EVERY, collect_everything, spare_the_old
from tidegate.runtime.log import configure
from tidegate.runtime.loop import Loop
from tidegate.runtime.serve import HttpServer
from tidegate.store.database import open_database
from tidegate.store.store import Store

_SWITCH_SECONDS = 0.000_1
"""How long a thread may keep others from Python (usual: 5 ms): who has an answer to give does not wait longer."""
_CONNECTIONS = 10
"""To the database: a report each for the threads that take them, and what is asked when everybody comes at once."""
WISHES_EVERY = timedelta(seconds=1)
"""Real time: how much later an agent that waits at another controller than the leader hears a command."""
_APART = timedelta(seconds=0.125)
"""Jobs of whole seconds begin so far apart, that they do not all come at once with every one."""


@dataclass(slots=True)
class _Term:
    """The term that runs, as it was told last."""

    epoch: int


def open_work(setup: FrontSetup) -> Work:
    """Serves, and does what the controller's own process asks for, by its name."""
    configure(setup.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    spare_the_old()
    # It reads no vectors: of layouts the lengths are enough, and two million series would be 300 MB.
    store, term, bell, outbox = (
        Store(open_database(setup.dsn, most=_CONNECTIONS), most_series=0),
        _Term(setup.epoch),
        Bell(),
        Outbox(),
    )
    wishes, tokens = Wishes(store.replicas, bell.ring, lambda: term.epoch), Tokens(store.hosts)
    reports: Reports = store.reports if setup.source is Source.AGENTS else LeftOut()
    agents = Agents(setup.clock, tokens, Intake(reports, wishes, outbox, setup.recent), wishes, outbox)
    server = HttpServer(ReportEndpoint(agents, bell, Forward(setup.inner)), _inherited(setup.listening), "controller")
    steady = _steady(wishes, tokens)

    def fetch(epoch: int, seconds: float) -> Told:
        term.epoch = epoch
        return outbox.fetch(seconds)

    def stop() -> Told:
        bell.close()
        outbox.close()
        server.stop()
        return outbox.fetch(0.0)  # what is done beside ends with the process

    works: Mapping[str, Callable[..., object]] = {
        "fetch": fetch,
        "changed": wishes.changed,
        "distrust": tokens.distrust,
        "stop": stop,
    }
    server.start()
    steady.start()
    return lambda name, *arguments: works[name](*arguments)


def _inherited(number: int) -> Callable[[str], socket.socket]:
    return lambda _name: socket.socket(fileno=number)


def _steady(wishes: Wishes, tokens: Tokens) -> Loop:
    """In real time, whatever clock is played."""
    steady = Loop(SystemClock())
    steady.every("wishes", WISHES_EVERY, wishes.refresh, first_after=_APART)
    steady.every("tokens", RENEW_EVERY, tokens.renew, first_after=RENEW_EVERY + 3 * _APART)
    steady.every("garbage", EVERYTHING_EVERY, collect_everything, first_after=EVERYTHING_EVERY)
    return steady


if __name__ == "__main__":
    answer_calls(open_work)
