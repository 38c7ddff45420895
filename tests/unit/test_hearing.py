"""What hosts said is remembered; what could not be is to be read from the store; what is no time harms nobody."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, World, batch, engine, host_state, reading

from tidegate.model.reading import HostName
from tidegate.model.unflatten import Reader
from tidegate.runtime.errors import Transient
from tidegate.wire import Answer, Arrival

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")


@pytest.fixture
def world() -> World:
    made = World(ManualClock(NOON))
    made.enroll(H1, H2)
    return made


def test_layouts_that_cannot_be_read_now_cost_nobody_else_his_report(world: World) -> None:
    """The database answers no question for a moment: the layout of H2 is not known here, that of H1 is."""
    known, missed = world.store.reports.readers, list[datetime]()

    def readers(
        wanted: Collection[tuple[HostName, str]], *, remembered: bool = False
    ) -> Mapping[tuple[HostName, str], Reader]:
        if not remembered and any(host == H2 for host, _ in wanted):
            raise Transient("busy")
        return {pair: reader for pair, reader in known(wanted).items() if pair[0] == H1}

    world.store.reports.readers = readers  # type: ignore[method-assign]
    world.hearing.missed = missed.append
    ago = NOON - timedelta(seconds=3)
    arrivals = [
        Arrival(host, batch(host, [reading(host, at, [engine("e", at)])], host_state(1), sent_at=NOON), NOON)
        for host, at in ((H1, NOON), (H2, ago))
    ]
    answers = world.agents.take(arrivals)
    assert all(isinstance(answer, Answer) for answer in answers)
    assert [len(world.head.of(host, NOON - timedelta(minutes=1))) for host in (H1, H2)] == [1, 0]
    assert missed == [ago]
    assert [host.last_seen for host in world.roster.all()] == [NOON, NOON], "both have spoken"


@pytest.mark.parametrize("sent_at", [2.5e11, 1e300, -1e300])
def test_one_whose_time_is_none_spoils_nobody_elses_report(world: World, sent_at: float) -> None:
    """Also where its reports are not stored, but left out."""
    mad = batch(H2, [reading(H2, NOON)], host_state(1)).model_copy(update={"sent_at": sent_at})
    good = batch(H1, [reading(H1, NOON)], host_state(1), sent_at=NOON)
    found = world.agents.take([Arrival(H1, good, NOON), Arrival(H2, mad, NOON)])
    assert isinstance(found[0], Answer)
    assert len(world.head.of(H1, NOON - timedelta(minutes=1))) == 1
