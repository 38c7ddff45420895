"""The billed cost: what the invoices came to, what they were spent on, and what a million tokens cost by them."""

from __future__ import annotations

from overview import POOLS, datasource_variable, links, pool_variable
from panels import Json, Panel, Threshold, place

# Days are UTC; a day is shown when it begins in the chosen time.
TIME = "day::timestamp AT TIME ZONE 'UTC'"
IN_RANGE = (
    "day BETWEEN ($__timeFrom()::timestamptz AT TIME ZONE 'UTC')::date "
    "AND ($__timeTo()::timestamptz AT TIME ZONE 'UTC')::date"
)
# Lines with GPU time alone have no currency; amounts of two currencies are never added.
MONEY = f"FROM v_cost_line WHERE {IN_RANGE} AND currency <> ''"
OF_GPUS = "kind IN ('busy', 'resident_idle', 'empty', 'unobserved')"
SUM: Json = {
    "reduceOptions": {"calcs": ["sum"], "fields": "", "values": False},
    "colorMode": "value",
    "graphMode": "area",
    "textMode": "auto",
    "justifyMode": "auto",
    "orientation": "auto",
}
NO_BILL = "no bill"


def _per_million(metric: str) -> str:
    """Cost of the chosen pools' lines over the tokens that they delivered, by day."""
    return (
        f"SELECT cost.day::timestamp AT TIME ZONE 'UTC' AS \"time\", {metric} AS metric, "
        "sum(cost.amount) * 1000000 / NULLIF(sum(tokens.delivered), 0) AS value "
        f"FROM (SELECT day, pool, currency, sum(effective) AS amount {MONEY} AND {POOLS} GROUP BY 1, 2, 3) AS cost "
        "LEFT JOIN (SELECT day, pool, sum(prompt_tokens + generation_tokens) AS delivered "
        f"FROM v_cost_tokens WHERE {IN_RANGE} GROUP BY 1, 2) AS tokens USING (day, pool) "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    )


TILES = (
    Panel(
        "stat",
        "Cost in this time",
        "Everything that bills say of the days shown, tax and credits included, and estimates for hosts of those days "
        "of which no bill speaks yet; effective cost, by currency (v_cost_line.effective).",
        f'SELECT {TIME} AS "time", currency AS metric, sum(effective) AS value {MONEY} GROUP BY 1, 2 ORDER BY 1, 2',
        width=6,
        height=4,
        decimals=2,
        minimum=None,
        options=SUM,
        no_value=NO_BILL,
    ),
    Panel(
        "stat",
        "Cost per million tokens",
        "Of the last day that a bill speaks of: everything on the chosen pools' lines over their tokens, prompt and "
        "generated (v_cost_line, v_cost_tokens).",
        _per_million("cost.currency"),
        width=6,
        height=4,
        decimals=4,
        minimum=None,
        no_value=NO_BILL,
    ),
    Panel(
        "stat",
        "GPU cost that worked",
        "Cost of GPU time in which a model worked, over the cost of all GPU time of our hosts (v_cost_line).",
        f'SELECT {TIME} AS "time", currency AS metric, '
        "sum(effective) FILTER (WHERE kind = 'busy') / NULLIF(sum(effective), 0) AS value "
        f"{MONEY} AND {OF_GPUS} GROUP BY 1, 2 ORDER BY 1, 2",
        unit="percentunit",
        width=6,
        height=4,
        decimals=1,
        maximum=1,
        no_value=NO_BILL,
    ),
    Panel(
        "stat",
        "Days that are not final",
        "Days that a bill speaks of and that may still change (v_cost_day.state); more bills or closed ones move them.",
        f'SELECT {TIME} AS "time", (state <> \'final\')::int AS "not final" FROM v_cost_day '
        f"WHERE {IN_RANGE} ORDER BY day",
        width=6,
        height=4,
        thresholds=(Threshold(None, "green"), Threshold(1, "orange")),
        options=SUM,
        no_value=NO_BILL,
    ),
)

SERIES = (
    Panel(
        "timeseries",
        "Cost by what it was spent on",
        "A day's effective cost by kind of line; what each means is in docs/billing.md (v_cost_line.kind).",
        f"SELECT {TIME} AS \"time\", kind || ' ' || currency AS metric, sum(effective) AS value "
        f"{MONEY} GROUP BY 1, 2 ORDER BY 1, 2",
        minimum=None,
        no_value=NO_BILL,
    ),
    Panel(
        "timeseries",
        "Cost by pool",
        "A day's effective cost on the lines of each chosen pool: worked, held idle, shares of network and storage "
        "(v_cost_line).",
        f"SELECT {TIME} AS \"time\", pool || ' ' || currency AS metric, sum(effective) AS value "
        f"{MONEY} AND {POOLS} GROUP BY 1, 2 ORDER BY 1, 2",
        minimum=None,
        no_value=NO_BILL,
    ),
    Panel(
        "timeseries",
        "Cost per million tokens by pool",
        "A day's cost of the pool over its tokens, prompt and generated; no point where none were delivered "
        "(v_cost_line, v_cost_tokens).",
        _per_million("cost.pool || ' ' || cost.currency"),
        minimum=None,
        no_value=NO_BILL,
    ),
    Panel(
        "timeseries",
        "How much is known",
        "Share of GPU time held that a bill speaks of, and of hosts' time of which anything was reported (v_cost_day).",
        f'SELECT {TIME} AS "time", metric, value FROM v_cost_day, '
        "LATERAL (VALUES ('in a bill', coverage), ('observed', observed)) AS shares (metric, value) "
        f"WHERE {IN_RANGE} ORDER BY 1, 2",
        unit="percentunit",
        maximum=1,
        no_value=NO_BILL,
    ),
    Panel(
        "table",
        "What no pool pays for",
        "Idle and unobserved GPU time, machines of nobody's, tax, credits and the rest, the dearest first "
        "(v_cost_line).",
        "SELECT kind, host, resource, currency, sum(billed) AS billed, sum(effective) AS effective, "
        f"bool_or(estimated) AS estimated {MONEY} AND pool = '' GROUP BY 1, 2, 3, 4 "
        "ORDER BY abs(sum(effective)) DESC NULLS LAST LIMIT 100",
        no_value="nothing",
    ),
    Panel(
        "table",
        "Days",
        "State, what is in no bill, and what is to be known of each day, the newest first (v_cost_day).",
        "SELECT day, state, coverage, observed, array_to_string(unbilled, ', ') AS unbilled, "
        f"array_to_string(notes, '; ') AS notes, computed_at FROM v_cost_day WHERE {IN_RANGE} ORDER BY day DESC",
        no_value=NO_BILL,
    ),
)


def board() -> Json:
    """The dashboard as classic JSON."""
    return {
        "uid": "tidegate-cost",
        "title": "Tidegate: billed cost",
        "description": "What the invoices came to, what they were spent on, and what a million tokens cost by them.",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "5m",
        "time": {"from": "now-30d", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [datasource_variable(), pool_variable()]},
        "annotations": {"list": []},
        "links": links(),
        "panels": place([*TILES, *SERIES]),
    }
