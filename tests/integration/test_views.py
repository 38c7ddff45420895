"""The views are what docs/schema.md promises, and say what the typed reads say."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from tidegate.model.allocation import Allocation, DayStatus, Line, LineKind, Place, PoolTokens, StoredDay
from tidegate.model.decision import Action, ActionKind, Decision, Plan
from tidegate.model.fleet import PoolName, ReplicaId, Slot
from tidegate.model.memory import Memory
from tidegate.model.money import CostState
from tidegate.model.policy import Mode
from tidegate.model.reading import HostName
from tidegate.store.database import Database
from tidegate.store.store import Store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"
LIKE_ANOTHER = {"v_changes": ("v_decisions", {"acted"}), "v_usage_1h": ("v_usage", set())}
"""Those that are told by another, and what they lack of it."""
DAY = date(2026, 11, 24)


def promised() -> dict[str, set[str]]:
    """The columns of each view that the page lists."""
    found: dict[str, set[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5 and cells[1].startswith("`v_"):
            words = " ".join(re.findall(r"`([^`]*)`", cells[3]))
            columns = {word for word in re.findall(r"[a-z_0-9]+", words) if word[0].isalpha() and word[:2] != "v_"}
            found |= {view: set(columns) for view in re.findall(r"v_\w+", cells[1])}
    for view, (other, without) in LIKE_ANOTHER.items():
        found[view] = found[other] - without
    found["v_usage_history"] = found["v_usage"] | {"resolution"}
    figures = found["v_pool_figures"] - {"at", "pool", "service"}
    found["v_pool_history"] = {"resolution", "at", "pool", "service", *figures}
    found["v_pool_history"] |= {f"{name}_{end}" for name in figures for end in ("min", "max")}
    return found


def test_every_view_and_column_is_on_the_page_and_nothing_else(database: Database) -> None:
    query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_name LIKE 'v\\_%'"
    present: dict[str, set[str]] = {}
    with database.begin() as connection:
        for view, column in connection.execute(text(query)):
            present.setdefault(view, set()).add(column)
    assert present == promised()


def rows(store: Store, query: str) -> list[tuple[object, ...]]:
    with store.database.begin() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def test_days_of_cost_are_those_of_the_typed_reads(database: Database) -> None:
    """A ledger without a figure stays without one; a day that is made again is there once."""
    store, until = Store(database), DAY + timedelta(days=1)
    billing = date(2026, 11, 1)
    place = Place(DAY, LineKind.BUSY, estimated=False, currency="USD", billing=billing, host="gpu-1", pool="base")
    lines = (
        Line(place, Decimal("1.000000001"), Decimal("0.9"), Decimal(5400)),
        Line(place._replace(kind=LineKind.TAX, host="", pool=""), Decimal("0.21"), None),
        Line(place._replace(kind=LineKind.CREDIT, currency="EUR"), Decimal(-3), Decimal(0)),
    )
    tokens = PoolTokens(DAY, "base", "chat", "m", "base", Decimal(10), Decimal(4), Decimal(7), partial=True)
    status = DayStatus(DAY, CostState.PARTIAL, (3,), None, Decimal("0.5"), ("gpu-2",), ("a note",))
    kept = StoredDay(status, "signature", datetime(2026, 11, 25, tzinfo=UTC))
    store.costs.put(kept, Allocation(lines[:1], (), (tokens, replace(tokens, pool="other"))))
    store.costs.put(kept, Allocation(lines, (), (tokens,)))

    (day,) = rows(
        store, "SELECT day, state, versions, coverage, observed, unbilled, notes, computed_at FROM v_cost_day"
    )
    assert day == (DAY, "partial", [3], None, Decimal("0.5"), ["gpu-2"], ["a note"], kept.computed_at)
    told = rows(store, "SELECT kind, currency, host, state, billed, effective, gpu_hours FROM v_cost_line")
    wanted = [
        (str(at.kind), at.currency, at.host, "partial", one.billed, one.effective, one.gpu_seconds / 3600)
        for one in store.costs.lines(DAY, until)
        for at in (one.place,)
    ]
    assert sorted(told, key=str) == sorted(wanted, key=str)
    (delivered,) = rows(
        store,
        "SELECT pool, prompt_tokens, cached_prompt_tokens, generation_tokens, partial, attainment FROM v_cost_tokens",
    )
    assert delivered == ("base", 10, 4, 7, True, None)


@pytest.mark.parametrize("view", ["v_changes", "v_decisions WHERE acted"])
def test_changes_are_the_decisions_that_did_something(database: Database, now: datetime, view: str) -> None:
    store, base = Store(database), PoolName("base")
    for tick in range(3):
        at = now + timedelta(seconds=15 * tick)
        decided = Decision(base, at, 1, 1, 0, 0, 2, 2, "why", (), (), Mode.ACT, None)
        slot = Slot(HostName("gpu-1"), 0, (0,), 8100)
        act = Action(ActionKind.START, ReplicaId("base-2"), base, slot, at, "why")
        store.decisions.record(Plan((decided,), (act,) if tick == 1 else (), Memory()))
    (found,) = store.decisions.latest(10, changes_only=True)
    assert rows(store, f"SELECT at, pool, target FROM {view}") == [(found.decision.at, "base", 2)]
