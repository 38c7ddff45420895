"""Grafana's classic JSON (schema 39, loads in 10.4 to 13) from a few functions: panels, targets, grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

DATASOURCE: Json = {"type": "grafana-postgresql-datasource", "uid": "${datasource}"}
GRID_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Threshold:
    """From this value on, this colour; the first has None."""

    value: float | None
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what it shows (title), where the figure comes from (description), and its SQL."""

    kind: str
    title: str
    description: str
    sql: str
    unit: str = "none"
    width: int = 12
    height: int = 8
    decimals: int | None = None
    minimum: float | None = 0
    maximum: float | None = None
    thresholds: Sequence[Threshold] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    no_value: str = "no data"
    overrides: Sequence[Json] = ()


def target(sql: str, *, table: bool) -> Json:
    """One query against the chosen Postgres."""
    return {
        "refId": "A",
        "datasource": DATASOURCE,
        "format": "table" if table else "time_series",
        "rawQuery": True,
        "editorMode": "code",
        "rawSql": sql,
    }


def render(panel: Panel, panel_id: int, x: int, y: int) -> Json:
    """A panel as Grafana wants it."""
    defaults: Json = {"unit": panel.unit, "noValue": panel.no_value, "color": {"mode": "palette-classic"}}
    for key, value in (("decimals", panel.decimals), ("min", panel.minimum), ("max", panel.maximum)):
        if value is not None:
            defaults[key] = value
    if panel.thresholds:
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"value": step.value, "color": step.color} for step in panel.thresholds],
        }
    if panel.kind == "timeseries":
        defaults["custom"] = {"lineWidth": 2, "fillOpacity": 8, "showPoints": "never", "spanNulls": False}
    return {
        "id": panel_id,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": list(panel.overrides)},
        "options": dict(panel.options) or dict(_OPTIONS[panel.kind]),
        "targets": [target(panel.sql, table=panel.kind == "table")],
    }


_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
        "justifyMode": "auto",
        "orientation": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}


def place(panels: Sequence[Panel]) -> list[Json]:
    """Lay the panels out left to right, a new row when the next does not fit."""
    placed: list[Json] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > GRID_COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        placed.append(render(panel, number, x, y))
        x, row_height = x + panel.width, max(row_height, panel.height)
    return placed
