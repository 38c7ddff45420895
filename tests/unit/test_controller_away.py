"""The database gone for an hour, on a played clock: the tick looks on from memory, decides nothing, and says so."""

from __future__ import annotations

from datetime import datetime

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import BASE, H1, World, engine, host_state, own_engine, reading

from tidegate.model.reading import HostReading
from tidegate.runtime.errors import Transient

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
AWAY = "database db/tidegate does not answer"
TICKS_AN_HOUR = 240
_STILL = ("readers", "accept_all")
"""What knows by itself, and what answers that its part of the work was refused."""


class Breakable(World):
    """A world whose store can be taken away: whatever is asked of it then is refused, but for layouts that it knows."""

    def break_store(self) -> None:
        for part in (self.store.reports, self.store.hosts, self.store.replicas, self.store.decisions):
            for name in dir(part):
                if not name.startswith("_") and name not in _STILL and callable(getattr(part, name)):
                    setattr(part, name, _away)

    def mend_store(self) -> None:
        for part in (self.store.reports, self.store.hosts, self.store.replicas, self.store.decisions):
            for name, kept in list(vars(part).items()):
                if kept is _away:
                    delattr(part, name)


def _away(*_: object, **__: object) -> None:
    raise Transient(AWAY)


def seen(world: World, running: float) -> HostReading:
    now = world.clock.now()
    return reading(
        H1, now, [engine("vllm-a", now, running=running, queue_depth=0.0, generation_tokens=running)], (0.5,)
    )


def test_an_hour_without_the_database() -> None:
    """Nothing acknowledged is lost, nothing is decided that cannot be recorded, and the figures are the live ones."""
    world = Breakable(ManualClock(NOON))
    world.enroll(H1)
    state = host_state(1, [own_engine()])
    world.report(H1, seen(world, 1.0), state=state)
    world.run()
    decided = len(world.store.decisions.decisions)
    target = world.state.overview().pools[0].figures.target

    spool: list[HostReading] = []
    world.break_store()
    for number in range(TICKS_AN_HOUR):
        world.clock.forward(15)
        spool.append(seen(world, float(number)))
        with pytest.raises(Transient, match=AWAY):
            world.intake.take(H1, world.packed(H1, [spool[-1]], state, number + 2), world.clock)
        with pytest.raises(Transient, match=AWAY):
            world.run()

    shown = world.state.overview()
    assert shown.at == world.clock.now()
    assert shown.unrecorded == AWAY
    (base,) = (pool for pool in shown.pools if pool.policy.name == BASE)
    assert base.figures.running == TICKS_AN_HOUR - 1, "what the host says now, not an hour ago"
    assert base.figures.target == target
    assert [host.heard for host in shown.hosts] == [True]

    world.mend_store()
    assert len(world.store.decisions.decisions) == decided, "nothing was decided meanwhile"
    answer = world.report(H1, *spool, state=state, first=2)
    assert (answer.acknowledged[0].first, answer.acknowledged[-1].last) == (2, TICKS_AN_HOUR + 1)
    world.run()
    assert world.state.overview().unrecorded == ""
    assert len(world.store.decisions.decisions) > decided


def test_a_host_that_falls_silent_meanwhile_is_not_shown_as_alive() -> None:
    """Memory is no excuse for old figures."""
    world = Breakable(ManualClock(NOON))
    world.enroll(H1)
    world.report(H1, seen(world, 1.0), state=host_state(1, [own_engine()]))
    world.run()
    world.break_store()
    world.clock.forward(600)
    with pytest.raises(Transient):
        world.run()
    assert [host.heard for host in world.state.overview().hosts] == [False]
    assert world.state.overview().pools[0].figures.running is None


def test_a_controller_that_never_looked_has_nothing_to_show() -> None:
    world = Breakable(ManualClock(NOON))
    world.break_store()
    with pytest.raises(Transient):
        world.run()
    assert world.state.overview().at is None
