"""The tiles above the status page: true sums, a reason where there is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from fakes.overview import overview

from tidegate.expose.headline import Tile, tiles
from tidegate.expose.words import Words
from tidegate.model.money import CostState
from tidegate.model.overview import CostOverview, Overview

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
EN = Words("en")


def by_label(fleet: Overview) -> dict[str, Tile]:
    return {tile.label: tile for tile in tiles(fleet, EN)}


def line(amount: str | None, tokens: str | None, million: str | None) -> CostOverview:
    known = [None if text is None else Decimal(text) for text in (amount, tokens, million)]
    return CostOverview(
        "", "", CostState.ESTIMATED, "USD", Decimal(7), *known, per_million_generated=None, partial=False
    )


def with_cost(total: CostOverview, burst: CostOverview) -> Overview:
    fleet = overview(NOON)
    assert fleet.cost is not None
    return replace(fleet, cost=replace(fleet.cost, total=total, burst=burst))


def test_money_stands_with_its_state_and_the_share_of_burst() -> None:
    found = by_label(with_cost(line("21.20", "14340000", "1.478"), line("17.00", "10190000", "1.668")))
    assert found["Cost per million tokens"] == Tile("Cost per million tokens", "1.478 USD", "estimated, last hour")
    assert found["Spent in the last hour"].text == "21.20 USD"
    assert found["Spent in the last hour"].note == "80% of it burst; 7.0 GPU hours"


def test_money_without_tokens_is_idle_cost_and_without_a_price_unknown() -> None:
    idle = by_label(with_cost(line("4.20", "0", None), line("0", "0", None)))
    assert (idle["Cost per million tokens"].text, idle["Cost per million tokens"].note) == ("", "idle: no tokens")
    assert idle["Spent in the last hour"].text == "4.20 USD"
    unpriced = by_label(with_cost(line(None, "5", None), line(None, "0", None)))
    assert unpriced["Spent in the last hour"] == Tile("Spent in the last hour", "", "price or currency missing")
    before = by_label(replace(overview(NOON), cost=None))
    assert before["Cost per million tokens"].text == ""


def test_speed_is_tokens_over_the_gpus_of_the_pools_that_say_theirs() -> None:
    fleet = overview(NOON)
    base, burst = fleet.pools
    base = replace(base, figures=replace(base.figures, gpus=2, tokens_per_gpu_per_second=100.0))
    burst = replace(burst, figures=replace(burst.figures, gpus=6, tokens_per_gpu_per_second=500.0))
    found = by_label(replace(fleet, pools=(base, burst)))["Tokens/GPU/s"]
    assert (found.text, found.note) == ("400", "3.20 k tokens/s in all")
    silent = replace(base, figures=replace(base.figures, tokens_per_gpu_per_second=None))
    assert by_label(replace(fleet, pools=(silent,)))["Tokens/GPU/s"].text == ""


def test_a_queue_of_which_a_part_is_missing_is_a_lower_bound() -> None:
    fleet = overview(NOON)
    assert by_label(fleet)["Queue depth"].text == "≥ 34"
    whole = replace(fleet, pools=tuple(replace(pool, gaps={}) for pool in fleet.pools))
    assert by_label(whole)["Queue depth"].text == "34"
    unknown = tuple(replace(pool, figures=replace(pool.figures, queue_depth=None)) for pool in fleet.pools)
    assert by_label(replace(fleet, pools=unknown))["Queue depth"].text == ""


def test_a_firing_alert_stands_out() -> None:
    fleet = overview(NOON)
    assert by_label(fleet)["Alerts"] == Tile("Alerts", "1 firing", "see below", bad=True)
    assert not by_label(replace(fleet, alerts=()))["Alerts"].bad
