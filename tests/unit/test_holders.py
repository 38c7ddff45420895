"""Whose GPUs are whose, from trees of processes of our own making."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.holders import Holder, HostProcess, ancestry, gpus_held
from tidegate.model.reading import EngineName

A, B = EngineName("a"), EngineName("b")
SLICE = "/system.slice"


def tree(*rows: tuple[int, int] | tuple[int, int, int] | tuple[int, int, int, str]) -> dict[int, HostProcess]:
    """Processes by (pid, parent[, session[, control group]])."""
    made = {}
    for pid, parent, *more in rows:
        session = more[0] if more else 1
        group = more[1] if len(more) > 1 else ""
        made[pid] = HostProcess(pid, parent, int(session), 100 + pid, str(group))
    return made


def owner(*pids: int) -> Holder:
    return Holder(owners=frozenset(pids))


def test_workers_belong_to_the_ancestor_that_listens() -> None:
    """vLLM: a server, its engine core, four workers; a second engine beside it."""
    processes = tree((10, 1), (11, 10), (12, 11), (13, 11), (20, 1), (21, 20))
    users = {0: {12}, 1: {13}, 2: {21}, 3: set[int]()}
    assert gpus_held({A: owner(10), B: owner(20)}, processes, users) == {A: (0, 1), B: (2,)}


def test_the_nearest_ancestor_has_the_worker() -> None:
    """A supervisor that listens itself and starts two engines holds none of their GPUs."""
    processes = tree((5, 1), (10, 5), (11, 10))
    assert gpus_held({A: owner(5), B: owner(10)}, processes, {0: {11}}) == {B: (0,)}


def test_a_gpu_that_two_engines_share_counts_for_both() -> None:
    processes = tree((10, 1), (20, 1))
    assert gpus_held({A: owner(10), B: owner(20)}, processes, {0: {10, 20}}) == {A: (0,), B: (0,)}


def test_a_unit_of_ours_is_known_by_its_control_group_though_its_processes_are_hidden() -> None:
    assert gpus_held({A: Holder(members=frozenset({10, 11}))}, {}, {0: {11}, 1: {99}}) == {A: (0,)}


def test_workers_of_ray_are_told_by_a_session_that_no_other_engine_has() -> None:
    processes = tree((10, 1, 7), (30, 2, 7), (20, 1, 8))
    assert gpus_held({A: owner(10), B: owner(20)}, processes, {0: {30}}) == {A: (0,)}


def test_two_engines_of_one_session_say_nothing_by_it() -> None:
    processes = tree((10, 1, 7), (20, 1, 7), (30, 2, 7))
    assert gpus_held({A: owner(10), B: owner(20)}, processes, {0: {30}}) == {}


def test_a_service_and_a_container_tell_and_a_login_does_not() -> None:
    for group, told in (
        (f"{SLICE}/vllm.service", {A: (0,)}),
        (f"{SLICE}/docker-5f.scope", {A: (0,)}),
        ("/user.slice/user-0.slice/session-4.scope", {}),
        ("/", {}),
        ("", {}),
    ):
        processes = tree((10, 1, 1, group), (30, 2, 1, group))
        assert gpus_held({A: owner(10)}, processes, {0: {30}}) == told, group


def test_an_engine_whose_own_workers_are_known_takes_no_others_by_session() -> None:
    """Beside it somebody's notebook computes in the same session."""
    processes = tree((10, 1, 7), (11, 10, 7), (30, 2, 7))
    assert gpus_held({A: owner(10)}, processes, {0: {11}, 1: {30}}) == {A: (0,)}


def test_nothing_is_known_of_what_is_not_seen() -> None:
    assert gpus_held({A: owner()}, {}, {0: {11}}) == {}
    assert gpus_held({}, {}, {0: {11}}) == {}


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 9)), st.integers(0, 9))
def test_a_circle_of_parents_ends(parents: dict[int, int], start: int) -> None:
    """A pid may be used again while the tree is read."""
    found = list(ancestry(start, tree(*parents.items())))
    assert len(found) == len(set(found)) <= 10


@given(
    st.dictionaries(st.integers(2, 30), st.integers(0, 30), max_size=20),
    st.lists(st.frozensets(st.integers(2, 30), max_size=3), max_size=4),
    st.dictionaries(st.integers(0, 7), st.frozensets(st.integers(2, 30), max_size=4), max_size=8),
)
def test_only_gpus_in_use_are_held_and_a_pid_never_by_two_engines_for_certain(
    parents: dict[int, int], owners: list[frozenset[int]], users: dict[int, frozenset[int]]
) -> None:
    processes = tree(*parents.items())
    holders = {EngineName(f"e{n}"): Holder(owners=pids) for n, pids in enumerate(owners)}
    for indices in gpus_held(holders, processes, users).values():
        assert indices == tuple(sorted(set(indices)))
        assert all(users[index] for index in indices)
