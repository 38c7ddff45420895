"""The spool keeps what nobody has acknowledged, within its bounds, through crashes and bad disks."""

from __future__ import annotations

import sqlite3
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from fakes.agent_parts import NOON, layout, report
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.agent.spool import Spool, SpoolLimits
from tidegate.wire import Layout, Range, Report

WIDE = SpoolLimits()
MINUTE = timedelta(minutes=1)


def ack(*sequences: int, boot: str = "boot") -> list[Range]:
    return [Range(boot_id=boot, first=min(sequences), last=max(sequences))]


def fill(spool: Spool, count: int, start: datetime = NOON) -> list[Report]:
    reports = [report(sequence, start + sequence * MINUTE) for sequence in range(1, count + 1)]
    for one in reports:
        spool.append(one, layout(), NOON)
    return reports


def big(sequence: int, at: datetime = NOON) -> Report:
    """A report of some 8 KiB."""
    return report(sequence, at).model_copy(update={"values": bytes(8192)})


def test_the_newest_comes_first_and_the_backlog_oldest_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    reports = fill(spool, 5)
    assert spool.newest(1) == [reports[4]]
    assert spool.backlog(3, {("boot", 5)}) == reports[:3]
    assert spool.backlog(9, {("boot", 5)}) == reports[:4]
    assert spool.layouts({"0" * 32}) == [layout()]
    assert spool.layouts({"f" * 32}) == []


def test_what_is_acknowledged_is_forgotten_and_nothing_else(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    reports = fill(spool, 6)
    spool.acknowledge(ack(2, 4))
    spool.acknowledge(ack(1, 6, boot="another boot"))
    assert spool.backlog(9) == [reports[0], reports[4], reports[5]]
    assert spool.state().reports == 3
    assert spool.state().oldest_at == NOON + MINUTE


def test_reports_survive_a_process_that_dies_without_closing(tmp_path: Path) -> None:
    reports = fill(Spool(tmp_path / "spool.db", WIDE), 3)
    after = Spool(tmp_path / "spool.db", WIDE)
    assert after.backlog(9) == reports
    assert after.layouts({"0" * 32}) == [layout()]


def test_the_oldest_are_dropped_beyond_the_age_and_counted_for_good(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", SpoolLimits(age=timedelta(minutes=10)))
    fill(spool, 3)
    spool.append(report(4, NOON + 30 * MINUTE), layout(), NOON + 30 * MINUTE)
    assert [one.sequence for one in spool.backlog(9)] == [4]
    spool.close()
    assert Spool(tmp_path / "spool.db", WIDE).state().dropped == 3


def test_the_oldest_are_dropped_beyond_the_size_and_the_newest_stays(tmp_path: Path) -> None:
    limits = SpoolLimits(size_bytes=200_000)
    spool = Spool(tmp_path / "spool.db", limits)
    for sequence in range(1, 101):
        spool.append(big(sequence), layout(), NOON)
        assert spool.state().size_bytes <= limits.size_bytes
    kept = [one.sequence for one in spool.backlog(500)]
    assert kept == list(range(101 - len(kept), 101))
    assert spool.state().dropped == 100 - len(kept)
    assert 10 < len(kept) < 30


def test_a_lowered_limit_is_kept_at_the_next_append(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    for sequence in range(1, 101):
        spool.append(big(sequence), layout(), NOON)
    spool.close()
    small = Spool(tmp_path / "spool.db", SpoolLimits(size_bytes=100_000))
    small.append(big(101), layout(), NOON)
    assert small.state().size_bytes <= 100_000
    assert small.newest(1)[0].sequence == 101


def test_a_batch_is_bounded_in_bytes_and_layouts(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    for number in range(1, 51):
        name = f"{number:032x}"
        spool.append(report(number, layout=name), layout(name), NOON)
    assert len(spool.backlog(50)) == 32
    for number in range(51, 401):
        spool.append(big(number), layout(), NOON)
    spool.acknowledge(ack(1, 50))
    assert sum(len(one.values) for one in spool.backlog(500)) <= 2 * 1024 * 1024


def test_layouts_go_with_their_last_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    old, new = "a" * 32, "b" * 32
    spool.append(report(1, layout=old), layout(old), NOON)
    spool.append(report(2, layout=new), layout(new), NOON)
    spool.acknowledge(ack(1))
    assert spool.layouts({old, new}) == [layout(new)]


def test_a_file_that_is_no_database_is_set_aside_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    path.write_bytes(b"this was a disk fault " * 500)
    spool = Spool(path, WIDE)
    fill(spool, 2)
    assert spool.state().reports == 2
    assert (tmp_path / "spool.db.damaged").read_bytes().startswith(b"this was")


def test_damage_in_the_middle_of_a_life_costs_no_new_report(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    spool = Spool(path, WIDE)
    for sequence in range(1, 31):
        spool.append(big(sequence), layout(), NOON)
    spool.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(bytes(content))
    spool.append(report(99), layout(), NOON)
    assert [one.sequence for one in spool.newest(5)] == [99]
    assert (tmp_path / "spool.db.damaged").exists()


def test_without_a_disk_reports_wait_in_memory_and_land_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    spool = Spool(folder / "spool.db", WIDE)
    reports = fill(spool, 3)
    assert spool.newest(1) == [reports[2]]
    assert spool.backlog(9) == reports
    assert spool.layouts({"0" * 32}) == [layout()]
    spool.acknowledge(ack(1))
    folder.mkdir()
    spool.append(report(4), layout(), NOON)
    spool.close()
    assert [one.sequence for one in Spool(folder / "spool.db", WIDE).backlog(9)] == [2, 3, 4]


def test_memory_is_bounded_too_and_its_drops_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "gone" / "spool.db", WIDE)
    fill(spool, 260)
    assert (spool.state().reports, spool.state().dropped) == (256, 4)
    (tmp_path / "gone").mkdir()
    spool.append(report(261), layout(), NOON)
    spool.close()
    assert Spool(tmp_path / "gone" / "spool.db", WIDE).state().dropped == 4


def test_a_full_disk_loses_nothing_while_the_controller_listens(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    fill(spool, 2)
    base = spool._file._base
    assert base is not None
    pages = base.execute("PRAGMA page_count").fetchone()[0]
    base.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    spool.append(big(3), layout(), NOON)
    assert spool.newest(1)[0].sequence == 3
    assert spool.state().reports == 3
    spool.acknowledge(ack(1, 3))
    assert spool.state().reports == 0
    assert spool.state().dropped == 0


def test_an_append_is_on_disk_when_it_returns_and_an_acknowledgement_need_not_be(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    fill(spool, 1)
    base = spool._file._base
    assert base is not None
    assert base.execute("PRAGMA synchronous").fetchone()[0] == 2
    spool.acknowledge(ack(1))
    assert base.execute("PRAGMA synchronous").fetchone()[0] == 1


def test_refused_reports_are_given_up_and_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    reports = fill(spool, 2)
    spool.give_up(reports[:1])
    assert (spool.state().reports, spool.state().dropped) == (1, 1)


class SpoolMachine(RuleBasedStateMachine):
    """Any interleaving of appends, acknowledgements, give-ups and crashes, against a plain dictionary."""

    LIMITS = SpoolLimits(age=timedelta(minutes=30), size_bytes=150_000)

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "spool.db"
        self.spool = Spool(self.path, self.LIMITS)
        self.now = NOON
        self.next, self.given, self.gone = 1, 0, 0
        self.expected: dict[int, Report] = {}

    def teardown(self) -> None:
        self.spool.close()
        self.folder.cleanup()

    @rule(minutes=st.integers(0, 3), large=st.booleans(), name=st.sampled_from("abc"))
    def append(self, minutes: int, large: bool, name: str) -> None:
        self.now += minutes * MINUTE
        made = (big if large else report)(self.next, self.now).model_copy(update={"layout": name * 32})
        self.spool.append(made, layout(name * 32), self.now)
        self.expected[self.next] = made
        self.next += 1
        self._forget_what_the_limits_allow()

    def _forget_what_the_limits_allow(self) -> None:
        kept = {one.sequence for one in self.spool.newest(10_000)}
        lost = [sequence for sequence in self.expected if sequence not in kept]
        assert kept <= set(self.expected)
        assert lost == sorted(self.expected)[: len(lost)], "only the oldest may go"
        old = [sequence for sequence in lost if self.expected[sequence].at < (self.now - self.LIMITS.age).timestamp()]
        assert len(old) == len(lost) or self.spool.state().size_bytes > 100_000, "and only beyond a limit"
        for sequence in lost:
            del self.expected[sequence]
        self.given += len(lost)

    @precondition(lambda self: self.next > 1)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(1, self.next - 1))
        last = data.draw(st.integers(first, self.next - 1))
        self.spool.acknowledge(ack(first, last))
        self.expected = {sequence: one for sequence, one in self.expected.items() if not first <= sequence <= last}

    @precondition(lambda self: self.expected)
    @rule()
    def give_up_the_oldest(self) -> None:
        self.spool.give_up([self.expected.pop(min(self.expected))])
        self.given += 1

    @rule(closes=st.booleans())
    def crash(self, closes: bool) -> None:
        before = self.spool
        if closes:
            before.close()
        self.spool = Spool(self.path, self.LIMITS)
        if not closes:
            before.close()

    @invariant()
    def nothing_unacknowledged_is_lost(self) -> None:
        waiting = [self.expected[sequence] for sequence in sorted(self.expected)]
        assert sorted(self.spool.newest(10_000), key=lambda one: one.sequence) == waiting
        first = self.spool.backlog(5)
        assert first == waiting[: len(first)]
        assert bool(first) == bool(waiting)
        named: set[str] = {one.layout for one in waiting}
        assert {one.id for one in self.spool.layouts(named)} == named

    @invariant()
    def the_limits_hold_and_every_drop_is_counted(self) -> None:
        state = self.spool.state()
        assert state.reports == len(self.expected)
        assert state.dropped == self.given
        assert state.size_bytes <= self.LIMITS.size_bytes


TestSpoolMachine = SpoolMachine.TestCase
TestSpoolMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_a_layout_comes_back_as_it_went(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    wide = Layout(id="c" * 32, series=[["engine", "vllm-0", "ttft_bucket", str(rank), "0.1"] for rank in range(2000)])
    spool.append(report(1, layout=wide.id), wide, NOON)
    assert spool.layouts({wide.id}) == [wide]


def test_a_disk_fault_is_no_reason_to_throw_the_waiting_reports_away(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", WIDE)
    fill(spool, 2)

    def fail(_: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    spool._file.attempt(fail)
    assert len(spool.backlog(9)) == 2
    assert not (tmp_path / "spool.db.damaged").exists()
