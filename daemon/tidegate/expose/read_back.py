"""Samples of the agents' pages, as a Prometheus keeps them, back into readings. Pure.

What makes one reading is one collection of the agent, by the agent's own clock: two Prometheus that scrape the same
agent, or one that scrapes more often than the agent collects, give it twice and it counts once. A scrape that does not
say when it was collected, or of an agent that has stopped to collect, gives none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegate.expose.sample_cells import (
    AGENT_INFO,
    COLLECTED,
    LABELS_OF,
    ONE_RANK,
    OWN_LABELS,
    RANKS,
    SCRAPE,
    SECONDS,
    Cell,
    cells,
)
from tidegate.model.missing import Gap, Missing, Number
from tidegate.model.reading import HostName, HostReading
from tidegate.model.scrape import Labels, SampleSeries, Scraped
from tidegate.model.series import SeriesKey
from tidegate.model.unflatten import unflatten
from tidegate.model.vocabulary import Counter as EngineCounter
from tidegate.model.vocabulary import Distribution

_SUMMED = frozenset(
    [counter.value for counter in EngineCounter]
    + [f"{name.value}_{part}" for name in Distribution for part in ("bucket", "sum", "count")]
)
"""Those series of an engine that are sums over its ranks."""
_FRESH = SeriesKey("host", "", "nvml_up")
"""In every page of an agent that collects, and in no other."""
_EXPORTED = "exported_"
"""What Prometheus puts before a label of ours where the target has one of the same name (honor_labels: false)."""

_NO_TARGETS = OWN_LABELS | {"__name__"}

Target = frozenset[tuple[str, str]]


def silent_hosts(agents: Iterable[SampleSeries], up: Iterable[SampleSeries], host_label: str) -> Mapping[HostName, Gap]:
    """The hosts of which no target answered its last scrape."""
    answered: dict[tuple[str, str], bool] = {}
    for series in up:
        place = _place(series.labels)
        answered[place] = answered.get(place, False) or any(value == 1.0 for _, value in series.points)
    hosts: dict[HostName, bool] = {}
    for series in agents:
        name, is_up = host_of(series.labels, host_label), answered.get(_place(series.labels), True)
        if name:
            hosts[HostName(name)] = hosts.get(HostName(name), False) or is_up
    return {name: Gap.UNREACHABLE for name, is_up in hosts.items() if not is_up}


def _place(labels: Labels) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def host_of(labels: Labels, host_label: str) -> str:
    """The host's name as this series says it: one of `tidegate_agent_info`, or any with the target's own label."""
    if host_label:
        return labels.get(host_label, "")
    return labels.get(f"{_EXPORTED}host") or labels.get("host", "")


@dataclass(slots=True)
class _Scrape:
    """One scrape of one target."""

    cells: dict[SeriesKey, Number] = field(default_factory=dict)
    spoilt: set[SeriesKey] = field(default_factory=set)
    """Those that two series gave different values."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Samples that became no figure, by reason."""
    host: str = ""


def read_back(found: Iterable[SampleSeries], host_label: str = "") -> Scraped:
    """The readings that the samples were; what becomes no figure is counted by reason."""
    scrapes: dict[Target, dict[float, _Scrape]] = {}
    for series in found:
        own, target = _split(series.labels)
        _take(series, own, scrapes.setdefault(target, {}))
        host = _named(series.labels, own, host_label)
        if host:
            for at, _ in series.points:
                scrapes[target].setdefault(at, _Scrape()).host = host
    nameless = {dict(target).get("instance", "?") for target, times in scrapes.items() if _is_nameless(times.values())}
    whole = [(at, look) for times in scrapes.values() for at, look in times.items() if _FRESH in look.cells]
    dropped: Counter[str] = Counter()
    for _, scrape in whole:
        dropped.update(scrape.dropped)
    ahead = [at - moment.timestamp() for at, look in whole if (moment := _moment(look.cells))]
    readings = _once(look for _, look in whole if look.host)
    return Scraped(readings, dict(dropped), tuple(sorted(nameless)), min(ahead, default=None))


def _is_nameless(scrapes: Iterable[_Scrape]) -> bool:
    """True of a target that exports what an agent does and never says which host it is."""
    looks = list(scrapes)
    return any(_FRESH in scrape.cells for scrape in looks) and not any(scrape.host for scrape in looks)


def _once(scrapes: Iterable[_Scrape]) -> dict[HostName, list[HostReading]]:
    """One reading for each collection of each host, in time order: that of the scrape which has the most of it."""
    best: dict[HostName, dict[datetime, tuple[int, HostReading]]] = {}
    for scrape in scrapes:
        reading = _reading(scrape)
        if reading is not None:
            at_once = best.setdefault(reading.host, {})
            size, _ = at_once.get(reading.at, (0, reading))
            if size < len(scrape.cells):
                at_once[reading.at] = len(scrape.cells), reading
    return {host: [by_time[at][1] for at in sorted(by_time)] for host, by_time in best.items()}


def _named(labels: Labels, own: Labels, host_label: str) -> str:
    """The host's name where this series says it."""
    if host_label:
        return labels.get(host_label, "")
    return own.get("host", "") if labels.get("__name__") == AGENT_INFO else ""


def _split(labels: Labels) -> tuple[dict[str, str], Target]:
    """The sample's own labels ("" where it has none), and what tells its target.

    A label that one family of ours has is no part of a target: on some series it is the target's, on others ours.
    """
    own = {
        name: labels.get(f"{_EXPORTED}{name}") or labels.get(name, "")
        for name in LABELS_OF.get(labels.get("__name__", ""), ())
    }
    return own, target_of(labels)


def target_of(labels: Labels) -> Target:
    """What tells a series' target from others."""
    return frozenset(item for item in labels.items() if item[0].removeprefix(_EXPORTED) not in _NO_TARGETS)


def _take(series: SampleSeries, own: Labels, scrapes: dict[float, _Scrape]) -> None:
    found = list(cells(series.labels.get("__name__", ""), own))
    if not found and "le" not in own:
        return
    last = len(series.points) - 1
    for place, (at, value) in enumerate(series.points):
        scrape = scrapes.get(at)
        if scrape is None:
            scrape = scrapes[at] = _Scrape()
        if not found:
            scrape.dropped["malformed"] += 1
        elif math.isfinite(value):
            _sort_in(scrape, found, value)
        else:
            scrape.dropped["not_finite"] += 1
            # A NaN at the end is how VictoriaMetrics marks that a series ended; Prometheus leaves its mark out.
            _sort_in(scrape, () if place == last and math.isnan(value) else found, Missing(Gap.NOT_FINITE))


def _sort_in(scrape: _Scrape, found: Sequence[Cell], value: Number) -> None:
    for cell in found:
        if cell.said is None:
            _put(scrape, cell.key, value)
        elif value == 1.0:
            _put(scrape, cell.key, cell.said)


def _put(scrape: _Scrape, key: SeriesKey, value: Number) -> None:
    if scrape.cells.setdefault(key, value) != value and key not in scrape.spoilt:
        scrape.dropped["conflicting"] += 1
        scrape.spoilt.add(key)


def _reading(scrape: _Scrape) -> HostReading | None:
    """The reading of one scrape; None when the agent had nothing new to say, or does not say when it looked."""
    own = {key: value for key, value in scrape.cells.items() if key.scope == SCRAPE}
    at = _moment(own)
    if at is None or _FRESH not in scrape.cells:
        return None
    ranks = {key.owner: value for key, value in own.items() if key.name == RANKS and isinstance(value, float)}
    keys, values = [], []
    for key, value in scrape.cells.items():
        if key.scope != SCRAPE:
            keys.append(_ranked(key, ranks))
            values.append(Missing(Gap.MALFORMED) if key in scrape.spoilt else value)
    reading = unflatten(HostName(scrape.host), at, keys, values)
    engines = (replace(engine, summed=ranks.get(engine.engine) != 1.0) for engine in reading.engines)
    return replace(reading, engines=tuple(engines))


def _moment(own: Mapping[SeriesKey, Number]) -> datetime | None:
    """When the agent began to collect, to the millisecond: what it exports is when it ended, and how long it took."""
    collected = own.get(SeriesKey(SCRAPE, "", COLLECTED))
    seconds = own.get(SeriesKey(SCRAPE, "", SECONDS), 0.0)
    if not isinstance(collected, float) or not isinstance(seconds, float):
        return None
    try:
        return datetime.fromtimestamp(round(collected - seconds, 3), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _ranked(key: SeriesKey, ranks: Mapping[str, float]) -> SeriesKey:
    """A sum over several ranks is named by how many they are: with another number it is another sum."""
    number = ranks.get(key.owner, 1.0)
    if number == 1.0 or key.scope != "engine" or key.rank != ONE_RANK or key.name not in _SUMMED:
        return key
    return key._replace(rank=f"sum of {number:g}")
