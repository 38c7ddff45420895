"""Values as JSON and back: signals and alerts, for the columns that nobody queries by field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tidegate.model.alert import AlertPhase, AlertState
from tidegate.model.decision import UsedSignal
from tidegate.model.fleet import Idle, Signal, Value
from tidegate.model.reading import Gap, Missing

Json = Mapping[str, Any]


def signal_json(used: UsedSignal) -> Json:
    """One input of a decision: a value, or idle, or missing with its reason; ages in seconds."""
    return {"source": used.source, "name": used.name} | _signal_json(used.signal)


def _signal_json(signal: Signal) -> dict[str, Any]:
    if isinstance(signal, Missing):
        return {"missing": signal.why.value}
    age = {"age": signal.age.total_seconds()}
    return age | ({"idle": True} if isinstance(signal, Idle) else {"value": signal.value})


def signal_from(data: Json) -> UsedSignal:
    """What `signal_json` wrote."""
    return UsedSignal(data["source"], data["name"], _signal_from(data))


def _signal_from(data: Json) -> Signal:
    if "missing" in data:
        return Missing(Gap(data["missing"]))
    age = timedelta(seconds=data["age"])
    return Idle(age) if "idle" in data else Value(data["value"], age)


def alert_json(state: AlertState) -> Json:
    """An alert as a notice carries it."""
    return {
        "fingerprint": state.fingerprint,
        "rule": state.rule,
        "labels": dict(state.labels),
        "phase": state.phase.value,
        "since": _text(state.since),
        "starts_at": _text(state.starts_at),
        "ends_at": _text(state.ends_at),
        "value": state.value,
        "baseline": state.baseline,
        "annotations": dict(state.annotations),
        "excluded": [[_text(start), _text(end)] for start, end in state.excluded],
    }


def alert_from(data: Json) -> AlertState:
    """What `alert_json` wrote."""
    moments = {name: _moment(data[name]) for name in ("since", "starts_at", "ends_at")}
    return alert_of({**data, **moments})


def alert_of(row: Mapping[Any, Any]) -> AlertState:
    """An alert of its columns: as JSON but for its own moments."""
    excluded = tuple((datetime.fromisoformat(start), datetime.fromisoformat(end)) for start, end in row["excluded"])
    return AlertState(**{**row, "phase": AlertPhase(row["phase"]), "excluded": excluded})


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
