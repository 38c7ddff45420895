"""Hosts, users and replicas; held by the store in memory and by the one in Postgres."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from fakes.store import FakeStore

from tidegate.model.decision import Action, ActionKind
from tidegate.model.fleet import PoolName, ReplicaId, ReplicaState, ServiceName, Slot, Want
from tidegate.model.leadership import Candidate
from tidegate.model.policy import Flavour, FleetPolicy, PoolPolicy
from tidegate.model.reading import HostName
from tidegate.model.records import ReplicaRecord
from tidegate.model.usage import Holding
from tidegate.store.leadership import StoredLeadership
from tidegate.store.store import Store
from tidegate.wire import EngineStatus, HostState, ReplicaStatus

AnyStore = FakeStore | Store
H1, H2, BURST = HostName("gpu-1"), HostName("gpu-2"), PoolName("burst")
MINUTE = timedelta(minutes=1)
POLICY = FleetPolicy(
    services={},
    pools={
        BURST: PoolPolicy(
            BURST,
            ServiceName("chat"),
            gpus_per_replica=2,
            flavours=(Flavour(template="vllm", price_per_gpu_hour=Decimal("2.50"), currency="EUR"),),
        )
    },
)


def start(serial: int, at: datetime, host: HostName = H1) -> Action:
    return Action(
        ActionKind.START,
        ReplicaId(f"burst-{serial}"),
        BURST,
        Slot(host, serial, (0, 1), 8100 + serial),
        deadline=at + 10 * MINUTE,
        reason="queue",
    )


def other(kind: ActionKind, serial: int, deadline: datetime | None = None) -> Action:
    return Action(kind, ReplicaId(f"burst-{serial}"), BURST, deadline=deadline, reason=kind.value)


def found(store: AnyStore, serial: int) -> ReplicaRecord:
    return next(record for record in store.replicas.load() if record.id == f"burst-{serial}")


def begin_term(store: AnyStore, now: datetime) -> int:
    candidate = Candidate("one/1", "one:1")
    if isinstance(store, FakeStore):
        return store.leaderships.claim(candidate, None, MINUTE, now).epoch
    with closing(StoredLeadership(store.database)) as leaderships:
        return leaderships.claim(candidate, None, MINUTE, now).epoch


def unmanaged(at: datetime, name: str = "gpu-1/vllm-0") -> ReplicaRecord:
    return ReplicaRecord(
        id=ReplicaId(name),
        pool=PoolName("base"),
        host=H1,
        template="",
        slot=None,
        gpus=(),
        gpu_count=1,
        port=8000,
        want=Want.RUN,
        state=ReplicaState.READY,
        since=at,
        requested_at=at,
        ready_at=at,
        managed=False,
    )


# Hosts and users


def test_a_host_reports_with_its_newest_token_until_revoked(store: AnyStore, now: datetime) -> None:
    assert store.hosts.enroll(H1, "hash-1", now)
    assert store.hosts.authenticate("hash-1") == H1
    assert not store.hosts.enroll(H1, "hash-2", now)
    assert store.hosts.authenticate("hash-1") is None
    assert store.hosts.authenticate("hash-2") == H1
    assert store.hosts.revoke(H1, now)
    assert store.hosts.authenticate("hash-2") is None
    assert [record.revoked for record in store.hosts.all()] == [True]
    assert not store.hosts.enroll(H1, "hash-3", now)
    assert store.hosts.authenticate("hash-3") == H1


def test_nobody_knows_an_unknown_host(store: AnyStore, now: datetime) -> None:
    assert not store.hosts.revoke(H1, now)
    assert store.hosts.authenticate("hash") is None
    store.hosts.seen(H1, HostState(), now)
    assert store.hosts.all() == []


def test_the_last_state_of_a_host_is_kept_and_an_older_one_does_not_replace_it(store: AnyStore, now: datetime) -> None:
    store.hosts.enroll(H2, "b", now)
    store.hosts.enroll(H1, "a", now)
    status = ReplicaStatus(replica_id="burst-1", state=ReplicaState.READY, since=now.timestamp(), in_flight=None)
    state = HostState(nvml_up=True, replicas=[status], engines=[EngineStatus(name="e", url="http://e", state="ready")])
    store.hosts.seen(H1, state, now)
    store.hosts.seen(H1, HostState(), now - MINUTE)
    first, second = store.hosts.all()
    assert (first.name, first.last_seen, first.state) == (H1, now, state)
    assert (second.name, second.last_seen, second.state) == (H2, None, None)


def test_a_user_is_known_by_the_newest_token(store: AnyStore, now: datetime) -> None:
    assert store.users.add("ada", "viewer", "hash-1", now)
    assert store.users.authenticate("hash-1") == ("ada", "viewer")
    assert not store.users.add("ada", "operator", "hash-2", now)
    assert store.users.authenticate("hash-1") is None
    assert store.users.authenticate("hash-2") == ("ada", "operator")


# Replicas


def test_a_start_is_a_wish_with_everything_the_host_needs(store: AnyStore, now: datetime) -> None:
    assert store.replicas.apply([start(1, now)], POLICY, now) == {H1}
    desired = store.replicas.desired(H1)
    (wanted,) = desired.replicas
    assert (desired.epoch, desired.revision) == (0, 1)
    assert (wanted.replica_id, wanted.pool, wanted.service, wanted.template) == ("burst-1", "burst", "chat", "vllm")
    assert (wanted.slot, wanted.gpus, wanted.port, wanted.want) == (1, [0, 1], 8101, Want.RUN)
    assert wanted.deadline == (now + 10 * MINUTE).timestamp()
    record = found(store, 1)
    assert (record.state, record.since, record.requested_at) == (ReplicaState.REQUESTED, now, now)
    assert (record.gpu_count, record.managed, record.why) == (2, True, "queue")


def test_the_same_actions_again_change_nothing(store: AnyStore, now: datetime) -> None:
    """After a crash between acting and settling the next tick may ask again."""
    store.replicas.apply([start(1, now)], POLICY, now)
    assert store.replicas.apply([start(1, now + MINUTE)], POLICY, now + MINUTE) == frozenset()
    drain = other(ActionKind.DRAIN, 1, now + 5 * MINUTE)
    assert store.replicas.apply([drain], POLICY, now) == {H1}
    later = other(ActionKind.DRAIN, 1, now + 50 * MINUTE)
    assert store.replicas.apply([later], POLICY, now) == frozenset()
    assert store.replicas.desired(H1).revision == 2
    assert (found(store, 1).want, found(store, 1).deadline) == (Want.DRAIN, now + 5 * MINUTE)


@pytest.mark.parametrize(
    ("kind", "want"),
    [(ActionKind.DRAIN, Want.DRAIN), (ActionKind.CANCEL, Want.STOP), (ActionKind.GIVE_UP, Want.STOP)],
)
def test_every_way_out_and_back(store: AnyStore, now: datetime, kind: ActionKind, want: Want) -> None:
    store.replicas.apply([start(1, now), start(2, now)], POLICY, now)
    store.replicas.apply([other(kind, 1)], POLICY, now)
    assert found(store, 1).want is want
    store.replicas.apply([other(ActionKind.RESUME, 1)], POLICY, now)
    assert (found(store, 1).want, found(store, 1).deadline) == (Want.RUN, None)
    assert found(store, 2).want is Want.RUN


def test_hosts_have_revisions_of_their_own(store: AnyStore, now: datetime) -> None:
    assert store.replicas.apply([start(1, now), start(2, now, H2), start(3, now)], POLICY, now) == {H1, H2}
    store.replicas.apply([other(ActionKind.DRAIN, 2)], POLICY, now)
    assert (store.replicas.desired(H1).revision, store.replicas.desired(H2).revision) == (1, 2)
    assert store.replicas.positions() == {H1: (0, 1), H2: (0, 2)}
    begin_term(store, now)
    assert store.replicas.positions() == {H1: (1, 1), H2: (1, 2)}
    assert [replica.replica_id for replica in store.replicas.desired(H1).replicas] == ["burst-1", "burst-3"]


def test_a_start_without_a_slot_is_refused_whole(store: AnyStore, now: datetime) -> None:
    with pytest.raises(ValueError, match="names no slot"):
        store.replicas.apply([replace(start(1, now), slot=None)], POLICY, now)
    assert store.replicas.load() == []


def test_what_was_seen_does_not_change_what_is_wanted(store: AnyStore, now: datetime) -> None:
    store.replicas.apply([start(1, now)], POLICY, now)
    before = found(store, 1)
    seen = replace(
        before,
        state=ReplicaState.READY,
        since=now + MINUTE,
        ready_at=now + MINUTE,
        cut_requests=3,
        why="",
        want=Want.STOP,
        deadline=None,
        template="other",
    )
    store.replicas.observe([seen])
    after = found(store, 1)
    assert after == replace(seen, want=Want.RUN, deadline=before.deadline, template="vllm")
    assert store.replicas.desired(H1).revision == 1


def test_a_stopped_replica_leaves_what_is_desired_and_raises_the_revision(store: AnyStore, now: datetime) -> None:
    store.replicas.apply([start(1, now)], POLICY, now)
    stopped = replace(found(store, 1), state=ReplicaState.STOPPED, since=now + MINUTE, stopped_at=now + MINUTE)
    store.replicas.observe([stopped])
    store.replicas.observe([stopped])
    assert store.replicas.load() == []
    assert store.replicas.desired(H1).replicas == []
    assert store.replicas.desired(H1).revision == 2
    assert store.replicas.apply([other(ActionKind.DRAIN, 1)], POLICY, now) == frozenset()
    assert store.replicas.next_serials() == {BURST: 2}


def test_an_engine_of_the_operators_own_is_seen_and_never_commanded(store: AnyStore, now: datetime) -> None:
    theirs = unmanaged(now)
    store.replicas.observe([theirs])
    store.replicas.observe([replace(theirs, gpu_count=4, since=now + MINUTE, requested_at=now + MINUTE)])
    (record,) = store.replicas.load()
    assert record == replace(theirs, gpu_count=4, since=now + MINUTE)
    drain = Action(ActionKind.DRAIN, theirs.id, theirs.pool)
    assert store.replicas.apply([drain], POLICY, now) == frozenset()
    assert store.replicas.desired(H1).replicas == []


def test_serials_count_stopped_replicas_and_no_foreign_names(store: AnyStore, now: datetime) -> None:
    store.replicas.apply([start(9, now), start(10, now)], POLICY, now)
    gone = replace(found(store, 10), state=ReplicaState.STOPPED, stopped_at=now)
    store.replicas.observe([gone, unmanaged(now)])
    assert store.replicas.next_serials() == {BURST: 11, PoolName("base"): 1}


def test_replicas_come_by_pool_and_serial(store: AnyStore, now: datetime) -> None:
    store.replicas.apply([start(10, now), start(9, now)], POLICY, now)
    store.replicas.observe([unmanaged(now)])
    assert [record.id for record in store.replicas.load()] == ["gpu-1/vllm-0", "burst-9", "burst-10"]


def test_epochs_rise(store: AnyStore, now: datetime) -> None:
    first, second = begin_term(store, now), begin_term(store, now)
    assert 0 < first < second == store.replicas.desired(H1).epoch


def test_gpus_are_held_from_the_request_to_the_end(store: AnyStore, now: datetime) -> None:
    """Clipped to the span; a failed replica holds none; what still runs holds until the span's end."""
    store.replicas.apply([start(1, now), start(2, now), start(3, now), start(4, now)], POLICY, now)
    stopped = {"state": ReplicaState.STOPPED, "since": now + 3 * MINUTE, "stopped_at": now + 3 * MINUTE}
    failed = {"state": ReplicaState.FAILED, "since": now + 4 * MINUTE}
    gone = {"state": ReplicaState.STOPPED, "since": now + MINUTE, "stopped_at": now + MINUTE}
    seen = [(2, stopped), (3, failed), (4, gone)]
    store.replicas.observe([replace(found(store, serial), **change) for serial, change in seen])  # type: ignore[arg-type]
    held = store.replicas.holdings(now + 2 * MINUTE, now + 60 * MINUTE, POLICY)
    price = Decimal("2.50")
    ends = {"burst-1": 60, "burst-2": 3, "burst-3": 4}
    assert held == [
        Holding(ReplicaId(name), BURST, 2, now + 2 * MINUTE, now + end * MINUTE, price, "EUR", H1)
        for name, end in ends.items()
    ]


def test_a_replica_keeps_its_flavour_and_that_flavours_price(store: AnyStore, now: datetime) -> None:
    """Whatever the order of the flavours is by then."""
    spot = Flavour("spot", template="sglang", price_per_gpu_hour=Decimal("1.25"), currency="EUR")
    hourly = Flavour("hourly", template="vllm", price_per_gpu_hour=Decimal("4"), currency="EUR")
    two = replace(POLICY, pools={BURST: replace(POLICY.pools[BURST], flavours=(spot, hourly))})
    first, second = start(1, now), start(2, now, H2)
    assert first.slot
    assert second.slot
    named = [replace(first, slot=replace(first.slot, flavour="hourly")), second]
    store.replicas.apply(named, two, now)

    assert [(found(store, n).flavour, found(store, n).template) for n in (1, 2)] == [("hourly", "vllm"), ("", "sglang")]
    turned = replace(POLICY, pools={BURST: replace(POLICY.pools[BURST], flavours=(hourly, spot))})
    held = {one.replica: one.price_per_gpu_hour for one in store.replicas.holdings(now, now + MINUTE, turned)}
    assert held == {"burst-1": Decimal(4), "burst-2": Decimal(4)}
    store.replicas.observe([replace(found(store, 1), state=ReplicaState.READY, flavour="other")])
    assert found(store, 1).flavour == "hourly"


def test_a_pool_without_policy_has_no_price(store: AnyStore, now: datetime) -> None:
    store.replicas.observe([unmanaged(now)])
    (held,) = store.replicas.holdings(now, now + MINUTE, POLICY)
    assert held.price_per_gpu_hour is None
