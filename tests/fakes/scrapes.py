"""What a Prometheus keeps of an agent's page: each scrape's samples as series with the target's labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.expose.agent_metrics import AgentCollector
from tidegate.model.scrape import SampleSeries
from tidegate.model.snapshot import AgentSnapshot

TARGET = {"job": "tidegate", "instance": "10.0.0.7:9091"}


def scraped(
    snapshots: Iterable[tuple[float, AgentSnapshot]],
    target: Mapping[str, str] = TARGET,
    *,
    honor_labels: bool = False,
) -> list[SampleSeries]:
    """Every series of these scrapes (when, and of what), with its labels as Prometheus would store them."""
    found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for at, snapshot in snapshots:
        for family in AgentCollector(lambda shown=snapshot: shown).collect():  # type: ignore[misc]
            for sample in family.samples:
                labels = stored(sample.name, sample.labels, target, honor_labels=honor_labels)
                found.setdefault(tuple(sorted(labels.items())), []).append((at, float(sample.value)))
    return [SampleSeries(dict(labels), points) for labels, points in found.items()]


def stored(name: str, own: Mapping[str, str], target: Mapping[str, str], *, honor_labels: bool) -> dict[str, str]:
    """The labels of a sample: empty ones are none; where both have one, ours is renamed unless it is honoured."""
    labels = {**target, "__name__": name}
    for label, value in own.items():
        if value and label in target and not honor_labels:
            labels[f"exported_{label}"] = value
        elif value:
            labels[label] = value
    return labels
