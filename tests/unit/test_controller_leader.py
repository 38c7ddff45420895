"""Leading by a lease, and what is kept in memory beside it: who leads, whose token it is, what is wanted of a host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from fakes.clock import ManualClock
from fakes.controller_world import H1, H2, engine, host_state, own_engine, reading
from fakes.store import FakeStore

from tidegate.controller.candidate import candidate
from tidegate.controller.engine_views import EngineViews
from tidegate.controller.head import Head
from tidegate.controller.leader import Leader
from tidegate.controller.recent_past import RecentPast
from tidegate.controller.roster import Roster
from tidegate.controller.tokens import Tokens
from tidegate.controller.wishes import Wishes
from tidegate.model.leadership import Candidate, Part
from tidegate.model.reading import HostName, HostReading
from tidegate.runtime.errors import Transient
from tidegate.wire import HostRecord

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
A, B = Candidate("one/1", "one:9092"), Candidate("two/2", "two:9092")
LONG = timedelta(minutes=5)


def leader(store: FakeStore, who: Candidate = A, span: timedelta = LONG) -> Leader:
    return Leader(store.leaderships, who, store.leaderships.under, ManualClock(NOON), span)


# The lease


def test_one_leads_and_the_other_stands_by_until_it_resigns() -> None:
    store = FakeStore()
    first, second = leader(store), leader(store, B)
    first.stand()
    second.stand()
    assert (first.part(), second.part()) == (Part.LEADS, Part.STANDS_BY)
    assert second.standing_by() == (True, "standing by: one:9092 leads")
    assert (second.view().name, second.view().epoch) == ("one:9092", 1)
    first.resign()
    second.stand()
    first.stand()
    assert (first.part(), second.part()) == (Part.STANDS_BY, Part.LEADS)
    assert second.view().epoch == 2


def test_a_leader_whose_lease_ran_out_does_nothing_though_nobody_told_it() -> None:
    """It was frozen, or the database away: by its own clock the term may be another's."""
    store = FakeStore()
    late = leader(store, span=timedelta())
    late.stand()
    done: list[int] = []
    late.led(lambda: done.append(1))()
    assert done == []
    assert not late.leads()


def test_a_leader_that_cannot_ask_is_unsure_and_may_only_look() -> None:
    store = FakeStore()
    unsure = leader(store, span=timedelta())
    unsure.stand()
    store.leaderships.away = "database does not answer"
    with pytest.raises(Transient):
        unsure.stand()
    assert unsure.part() is Part.UNSURE
    works, why = unsure.standing_by()
    assert not works
    assert why.endswith("database does not answer")


def test_before_anybody_was_asked_nobody_is_known_to_lead() -> None:
    store = FakeStore()
    fresh = leader(store)
    assert (fresh.part(), fresh.may_look()) == (Part.UNSURE, False)
    assert fresh.standing_by()[1].startswith("starting: it is not known yet who leads")


def test_jobs_run_under_the_term_that_they_began_in() -> None:
    store = FakeStore()
    first = leader(store)
    first.stand()
    done: list[int] = []
    first.led(lambda: done.append(store.leaderships.under_terms[-1]))()
    assert done == [1]
    began = first.began_at()
    first.stand()
    assert (first.view().epoch, first.began_at()) == (1, began), "a renewal begins nothing"


def test_a_candidate_is_the_same_after_a_restart_and_says_where_it_listens(tmp_path) -> None:  # type: ignore[no-untyped-def]
    first = candidate(tmp_path, "127.0.0.1", 9092)
    assert candidate(tmp_path, "127.0.0.1", 9092) == first
    assert first.name.endswith(":9092")
    assert candidate(tmp_path, "10.0.0.7", 1).name == "10.0.0.7:1"
    assert candidate(tmp_path, "fd00::7", 1).name == "[fd00::7]:1"


# The hosts in memory


class Refusing:
    """A book of hosts that can be taken away."""

    def __init__(self, store: FakeStore) -> None:
        self._hosts, self.away, self.asked = store.hosts, False, 0

    def __getattr__(self, name: str) -> object:
        self.asked += 1
        if self.away:
            raise Transient("away")
        return getattr(self._hosts, name)


@pytest.fixture
def store() -> FakeStore:
    made = FakeStore()
    made.hosts.enroll(H1, "one", NOON)
    made.hosts.enroll(H2, "two", NOON)
    return made


def test_a_token_is_asked_for_once_and_forgotten_with_its_host(store: FakeStore) -> None:
    book = Refusing(store)
    tokens = Tokens(book)  # type: ignore[arg-type]
    assert tokens.trusted("one") is None
    assert tokens.authenticate("one") == H1
    asked = book.asked
    assert (tokens.trusted("one"), tokens.authenticate("one"), book.asked) == (H1, H1, asked)
    assert tokens.authenticate("nobody's") is None
    store.hosts.enroll(H1, "another", NOON)
    tokens.distrust(H1)
    assert tokens.authenticate("one") is None
    tokens.authenticate("two")
    store.hosts.revoke(H2, NOON)
    tokens.distrust(H2)
    assert tokens.authenticate("two") is None


def test_all_tokens_in_use_are_looked_at_in_one_question(store: FakeStore) -> None:
    book = Refusing(store)
    tokens = Tokens(book, certain=timedelta())  # type: ignore[arg-type]
    tokens.renew()
    tokens.authenticate("one")
    tokens.authenticate("two")
    store.hosts.revoke(H2, NOON)  # by another controller
    asked = book.asked
    tokens.renew()
    assert (tokens.trusted("one"), tokens.trusted("two"), book.asked) == (H1, None, asked + 1)
    book.away = True
    with pytest.raises(Transient):
        tokens.renew()
    assert tokens.trusted("one") == H1, "for some seconds more"


def test_many_tokens_are_looked_at_some_at_a_time_the_oldest_first(store: FakeStore) -> None:
    class Counting(Refusing):
        def good_tokens(self, used: set[str]) -> object:
            questions.append(used)
            return self._hosts.good_tokens(used)

    questions: list[set[str]] = []
    names = [f"t{number:03d}" for number in range(160)]
    for name in names:
        store.hosts.enroll(HostName(name), name, NOON)
    tokens = Tokens(Counting(store), certain=timedelta())  # type: ignore[arg-type]
    for name in names:
        tokens.authenticate(name)
    for _ in range(4):
        tokens.renew()
    assert [len(each) for each in questions] == [52] * 4, "a few, and an eighth of them"
    assert questions[0] == set(names[:52])
    assert set(names) == questions[0] | questions[1] | questions[2] | questions[3]
    fresh = Tokens(Counting(store))  # type: ignore[arg-type]
    fresh.authenticate("t000")
    fresh.renew()
    assert len(questions) == 4, "it was certain a moment ago"


def test_a_token_that_we_took_away_while_it_was_looked_at_stays_away(store: FakeStore) -> None:
    class Slow(Refusing):
        def __getattr__(self, name: str) -> object:
            found = super().__getattr__(name)
            if name != "good_tokens":
                return found

            def late(used: set[str]) -> object:
                good = store.hosts.good_tokens(used)
                store.hosts.revoke(H1, NOON)
                tokens.distrust(H1)
                return good

            return late

    tokens = Tokens(Slow(store), certain=timedelta())  # type: ignore[arg-type]
    tokens.authenticate("one")
    tokens.renew()
    assert tokens.trusted("one") is None


def test_states_are_written_behind_and_not_lost_while_the_database_is_away(store: FakeStore) -> None:
    book = Refusing(store)
    roster = Roster(book)  # type: ignore[arg-type]
    roster.all()
    roster.seen(H1, host_state(1, [own_engine()]), NOON)
    assert store.hosts.records[H1].last_seen is None
    assert roster.remembered()[0].last_seen == NOON
    book.away = True
    with pytest.raises(Transient):
        roster.flush()
    book.away = False
    roster.flush()
    assert store.hosts.records[H1].last_seen == NOON
    asked = book.asked
    roster.seen(H1, host_state(2), NOON - LONG)  # an older one
    assert roster.all()[0].last_seen == NOON
    assert book.asked == asked + 2, "what we know is not read again: the listing, and nobody's state"


def test_what_a_host_told_another_controller_is_found(store: FakeStore) -> None:
    roster = Roster(store.hosts)
    roster.seen(H1, host_state(1), NOON)
    roster.flush()
    store.hosts.seen(H1, host_state(4), NOON + LONG)
    (found, _) = roster.all()
    assert found.last_seen == NOON + LONG
    assert found.state is not None
    assert len(found.state.gpus) == 4


# What is wanted, and the recent past


def test_wishes_are_remembered_until_they_move(store: FakeStore) -> None:
    woken: list[frozenset[HostName]] = []
    wishes = Wishes(store.replicas, lambda hosts: woken.append(frozenset(hosts)), lambda: 0)
    assert wishes.known(H1) is None
    assert wishes.desired(H1).revision == 0
    wishes.refresh()
    assert wishes.known(H1) is not None
    store.replicas.revisions[H1] = 7  # as another controller does it
    wishes.refresh()
    assert woken == [frozenset({H1})]
    assert wishes.known(H1) is None
    assert wishes.desired(H1).revision == 7
    wishes.changed([H1])
    assert wishes.known(H1) is None, "we changed it ourselves: it is read again"


def record(host: HostName, at: datetime | None) -> HostRecord:
    return HostRecord(host, at, None, revoked=False)


def away(*_: object) -> Sequence[HostReading]:
    raise Transient("the database is away")


class Readings:
    """Stored readings that note what was asked for."""

    def __init__(self, *stored: HostReading) -> None:
        self.stored, self.asked = stored, []

    def readings(self, since: datetime, until: datetime, host: HostName | None = None) -> Sequence[HostReading]:
        self.asked.append(host)
        return [one for one in self.stored if since <= one.at < until and host in (None, one.host)]


def test_the_head_is_filled_when_a_term_begins_and_follows_what_hosts_tell_others() -> None:
    """What was told to us is not read again."""
    stored = Readings(reading(H1, NOON), reading(H2, NOON + LONG, [engine("e", NOON + LONG)]))
    head, heard = Head(2 * LONG), {H1: NOON + LONG}
    follow = RecentPast(head, stored, heard, lambda: NOON)  # type: ignore[arg-type]
    follow([record(H1, NOON), record(H2, NOON)], NOON)
    assert (len(head), stored.asked) == (1, [None])
    follow([record(H1, NOON + LONG), record(H2, NOON)], NOON + LONG)
    assert stored.asked == [None], "nobody spoke to another"
    follow([record(H1, NOON + LONG), record(H2, NOON + LONG)], NOON + LONG)
    assert (len(head), stored.asked) == (2, [None, H2])


def test_what_was_taken_and_not_heard_is_read_again() -> None:
    """As when the front ends between two fetches; also where the database is away at first."""
    stored = Readings(reading(H1, NOON), reading(H1, NOON + LONG), reading(H2, NOON + LONG))
    head, heard = Head(2 * LONG), {H1: NOON + 2 * LONG, H2: NOON + 2 * LONG}
    follow = RecentPast(head, stored, heard, lambda: NOON)  # type: ignore[arg-type]
    follow([], NOON - LONG)
    assert len(head) == 0
    follow([record(H1, NOON + LONG)], NOON + LONG)
    assert len(head) == 0, "it seems that we have heard all of it"
    readings, stored.readings = stored.readings, away  # type: ignore[method-assign]
    follow.missed(NOON + LONG)
    follow.missed(NOON + 2 * LONG)
    with pytest.raises(Transient):
        follow([], NOON + LONG)
    stored.readings = readings  # type: ignore[method-assign]
    follow([], NOON + LONG)
    assert len(head) == 2, "since the first moment, and a little before"
    asked = len(stored.asked)
    follow([], NOON + LONG)
    assert len(stored.asked) == asked, "once"


def test_an_engines_window_is_worked_out_once_for_the_same_readings() -> None:
    views = EngineViews()
    first = [reading(H1, NOON, [engine("e", NOON)]), reading(H1, NOON + LONG, [engine("e", NOON + LONG)])]
    found = views(H1, first)
    assert views(H1, list(first)) is found
    assert views(H1, first[1:]) is not found
    assert views(H1, []) == {}
