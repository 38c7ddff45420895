"""Every sentence that the decision core, the figures and the cost write has its Chinese; the unknown stays English."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.planner_story import Story
from hypothesis import given
from hypothesis import strategies as st

from tidegate.controller.measured import notes_of as measured_notes
from tidegate.decide import explain
from tidegate.decide.demand import demand_by_target, demand_by_threshold, unknown_demand
from tidegate.decide.guard import Hold
from tidegate.decide.load import Load
from tidegate.expose.chinese import chinese
from tidegate.model.decision import Limit
from tidegate.model.fleet import PoolName, ServiceName
from tidegate.model.policy import TargetPolicy, ThresholdPolicy
from tidegate.model.reading import Gap, HostName
from tidegate.model.scrape import Scraped

CHAT = ServiceName("chat")
NAMES = ("chat", "burst", "GPU", "UTC", "token", "tokens", "price_per_gpu_hour", "USD", "CNY")
UNTIL = datetime(2026, 11, 25, 12, 0, tzinfo=UTC) + timedelta(minutes=3)


def english_left(text: str) -> list[str]:
    """The words of a Chinese sentence that are neither names nor units."""
    return [word for word in re.findall(r"[A-Za-z_]{2,}", text) if word not in NAMES]


def sentence(because: str, move: str, holds: list[Hold]) -> str:
    return chinese(explain._sentence(because, move, holds))


@st.composite
def loads(draw: st.DrawFn) -> Load:
    silent = draw(st.integers(0, 40))
    gaps = draw(st.lists(st.sampled_from(list(Gap)), min_size=1, max_size=3, unique=True))
    total, ready = draw(st.floats(0, 1e5)), draw(st.integers(1, 40))
    return Load(total=total, ready=ready, silent=silent, blind=False, gaps=tuple(gaps) if silent else ())


@given(
    load=loads(),
    supply=st.integers(1, 60),
    limits=st.lists(st.sampled_from(list(Limit)), max_size=4),
    to=st.integers(0, 9),
)
def test_every_reason_of_a_decision_is_chinese(load: Load, supply: int, limits: list[Limit], to: int) -> None:
    """Every clause of both policies, every limit, every gap: a new one is missed here."""
    demands = [
        demand_by_target(CHAT, load, supply, TargetPolicy()),
        demand_by_threshold(CHAT, replace(load, total=min(load.total, load.ready)), supply, ThresholdPolicy()),
        unknown_demand(CHAT, 0),
        unknown_demand(CHAT, supply),
    ]
    move = explain._move(PoolName("burst"), 5, to)
    holds = [Hold(limit, UNTIL if number % 2 else None) for number, limit in enumerate(limits)]
    for demand in demands:
        assert english_left(sentence(demand.because, move, holds)) == []


def test_a_reason_reads_as_one_would_write_it() -> None:
    said = chinese(
        "chat has 37 requests in flight on 6 ready replicas (1 silent: stale; taken as at target) and needs 4 at 10 "
        "each; burst shrinks from 4 to 3 (more was wanted within the scale-in window, until 12:42:13 UTC; "
        "the base pool fills first)."
    )
    assert said == (
        "chat 有 37 个在途请求，6 个就绪副本（1 个无数据：数据陈旧；按目标负载计），按每副本 10 个需要 4 个；"
        "burst 从 4 缩到 3（缩容窗口内曾需要更多，至 12:42:13 UTC；先填满基础池）。"
    )


@pytest.mark.parametrize(
    "text",
    [
        "no replica serves",
        "1 of 2 replicas missing (stale)",
        "1 of 2 replicas left out (other buckets)",
        "3 buckets without a usable token count are left out",
        "1.500000 GPU hours have no price: set price_per_gpu_hour of the pool",
        "USD and CNY are never added",
        "3 five-minute buckets with GPUs held have no token data (not reported, or still starting)",
        "no token was served: the whole cost is idle",
        "3 rows of bill 12 are quarantined: the day cannot be final",
        "bill 12 has no usable effective cost: its billed cost stands in",
        "2 hosts held GPUs and stand in no bill: they cost 0 in it",
        "1.50 GPU hours of b1 are in no bill and have no price",
        "starting: no tick has gone through yet",
    ],
)
def test_gaps_and_notes_are_chinese(text: str) -> None:
    assert english_left(chinese(text).replace(" and ", " ")) == []


@pytest.mark.parametrize(
    "because",
    [
        (
            "chat carries 3.2 replicas' worth of load on 4 ready (1 silent: stale, no_traffic), up to 4.4 expected in"
            " 80 s, and one carries 0.89 within the objective: 6 needed"
        ),
        *(
            "chat carries 0.4 replicas' worth of load on 1 ready, up to 0.5 expected in 260 s, and one carries 0.89"
            f" within the objective: 6 needed; the last 3 {like} rose to 5.0 at this hour"
            for like in ("days", "workdays", "weekend days", "weeks")
        ),
        "chat has no ready replica and 7 requests waiting at its gateway: 1 needed",
        "chat is scheduled for 3",
        "chat is to have 3 by an external program, 12 s ago",
        "chat hears nothing from its external program",
        "chat hears nothing from its external program and falls back to 2",
    ],
)
def test_what_each_policy_saw_is_chinese(because: str) -> None:
    assert english_left(sentence(because, "burst stays at 3", [])) == []


def test_the_objectives_sentences_are_those_that_the_core_writes() -> None:
    """Two looks at a service: with load, and with nothing ready but a queue at its gateway."""
    story = Story()
    story.run(3.0, 3)
    story.run(14.0, 3)
    story.tenant.replicas["base"].clear()
    story.tenant.replicas["burst"].clear()
    reasons = {pool["reason"] for made in story.plans for pool in made["pools"].values()}
    assert [english_left(chinese(reason).replace("fleet", "").replace("base", "")) for reason in reasons] == [[]] * len(
        reasons
    )


def test_errors_stay_as_they_were_said() -> None:
    said = chinese("the last tick went through 400 s ago: database db/tidegate does not answer")
    assert said == "上次成功的轮询在 400 秒前: database db/tidegate does not answer"


@given(st.text())
def test_the_unknown_stays_as_it_is_and_nothing_breaks(text: str) -> None:
    """Braces, newlines and markup come from other machines."""
    assert isinstance(chinese(text), str)
    assert chinese(f"zz {text}").startswith("zz")


def test_what_a_host_said_of_a_failed_start_stays_as_it_said_it() -> None:
    """The words around it are Chinese."""
    found = chinese("the last start failed: base-1 failed: cannot run 'x', mend its `command`, until 12:00:30 UTC")

    assert found == "上次启动失败：base-1 failed: cannot run 'x', mend its `command`，至 12:00:30 UTC"


def test_every_note_on_the_prometheus_that_is_read_is_chinese() -> None:
    """All but what others said, and the words of its configuration."""
    known = {"Prometheus", "Tidegate", "agent", "host_label", "matchers", "prometheus", "gpu", *NAMES}
    notes = measured_notes(
        Scraped({}, {"not_finite": 3}, ("10.0.0.7:9091",), 900.0), {HostName("gpu-1"): Gap.UNREACHABLE}
    ) + measured_notes(Scraped({}), {})
    assert len(notes) == 5
    for note in notes:
        left = [word for word in english_left(chinese(note)) if word not in known]
        assert chinese(note) != note
        assert not left or "no finite numbers" in note
