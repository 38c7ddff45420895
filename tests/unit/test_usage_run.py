"""A run of buckets adds up to what its counters say; one that cannot be worked out hands its tails on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fakes.store_batches import engine, reading
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.reading import Counter, EngineName, HostName, HostReading
from tidegate.model.usage import BUCKET, bucket_of
from tidegate.store.buckets import Tail
from tidegate.store.samples import NOTHING, Looks
from tidegate.store.usage_run import Seen, runs_of, work_out

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=1)
STEP = timedelta(seconds=15)
GENERATED = Counter.GENERATION_TOKENS


def looked(steps: list[int]) -> list[HostReading]:
    """A sample a step; the counter grows by so much in each."""
    total, found = 1_000.0, []
    for number, grown in enumerate(steps):
        total += grown
        at = NOON + number * STEP
        found.append(reading(at, engine(at, generation_tokens=total, started=1.0)))
    return found


def seen_of(looks: list[HostReading]) -> list[Seen]:
    moments = [look.at for look in looks]
    made = []
    for bucket in sorted({bucket_of(at) for at in moments}):
        inside = [look for look in looks if bucket_of(look.at) == bucket]
        before = max((at for at in moments if at < bucket), default=None)
        after = min((at for at in moments if at >= bucket + BUCKET), default=None)
        made.append(Seen(bucket, Looks([look.at for look in inside], inside), before, after, {}))
    return made


@given(st.lists(st.integers(0, 500), min_size=21, max_size=100))
def test_what_is_worked_out_in_a_run_adds_up(steps: list[int]) -> None:
    tails: dict[EngineName, Tail] = {}
    total = 0.0
    for one in seen_of(looked(steps)):
        worked = work_out(one, tails, LATER)
        assert worked.worked
        assert worked.settled
        assert worked.moved == one.engines, "nothing was kept of it before"
        total += sum(share.increases[GENERATED] for share in worked.shares.values())
    assert total == sum(steps[1:])


@given(st.lists(st.integers(0, 500), min_size=60, max_size=60))
def test_a_bucket_without_samples_hands_on_what_is_kept_of_it(steps: list[int]) -> None:
    first, gone, last = seen_of(looked(steps))
    tails: dict[EngineName, Tail] = {}
    whole = dict(tails)
    work_out(first, tails, LATER)
    kept = work_out(gone, dict(tails), LATER).shares
    ends = {name: share.tail for name, share in kept.items()}
    stands = work_out(Seen(gone.bucket, NOTHING, None, None, ends), tails, LATER)
    assert (stands.worked, stands.settled, stands.shares, stands.moved) == (False, True, {}, frozenset())
    assert tails == ends
    for one in (first, gone):
        work_out(one, whole, LATER)
    assert work_out(last, tails, LATER) == work_out(last, whole, LATER)


def test_what_came_out_as_it_was_moves_nothing() -> None:
    (one,) = seen_of(looked([0, 5, 7]))
    once = work_out(one, {}, LATER)
    ends = {name: share.tail for name, share in once.shares.items()}
    again = work_out(Seen(one.bucket, one.looks, one.before, one.after, ends), {}, LATER)
    assert again.shares == once.shares
    assert again.moved == frozenset()


@given(st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 12), min_size=1)))
def test_a_run_is_the_oldest_bucket_and_what_follows_without_a_gap(marked: dict[str, set[int]]) -> None:
    rows = [(HostName(host), NOON + BUCKET * number) for host in sorted(marked) for number in sorted(marked[host])]
    runs = runs_of(rows)
    assert set(runs) == set(marked)
    for host, run in runs.items():
        numbers = [(bucket - NOON) // BUCKET for bucket in run]
        oldest = min(marked[host])
        assert numbers == list(range(oldest, oldest + len(numbers)))
        assert oldest + len(numbers) not in marked[host]
