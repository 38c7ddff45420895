"""What Grafana does to a query before Postgres sees it: variables first, then its Postgres macros."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

_MACRO = re.compile(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)")


def quoted(values: Sequence[str]) -> str:
    """A variable that may hold many: each quoted, quotes doubled, comma between."""
    return ",".join("'" + value.replace("'", "''") + "'" for value in values)


def expand(sql: str, since: datetime, until: datetime, pools: Sequence[str], interval: timedelta) -> str:
    """The SQL that reaches the database; raises KeyError on a macro that Grafana does not know."""
    text = sql.replace("${pool}", quoted(pools)).replace("$pool", quoted(pools))
    text = text.replace("$__interval_ms", str(int(interval.total_seconds() * 1000)))
    text = text.replace("$__interval", f"{int(interval.total_seconds())}s")
    start, end = (f"'{moment.strftime('%Y-%m-%dT%H:%M:%SZ')}'" for moment in (since, until))

    def macro(found: re.Match[str]) -> str:
        name, arguments = found.group(1), [part.strip() for part in found.group(2).split(",")]
        if name == "__timeFilter":
            return f"{arguments[0]} BETWEEN {start} AND {end}"
        if name in ("__timeGroup", "__timeGroupAlias"):
            seconds = arguments[1].strip("'").removesuffix("s")
            group = f"floor(extract(epoch from {arguments[0]})/{seconds})*{seconds}"
            return group + (' AS "time"' if name.endswith("Alias") else "")
        return {"__timeFrom": start, "__timeTo": end}[name]

    return _MACRO.sub(macro, text)
