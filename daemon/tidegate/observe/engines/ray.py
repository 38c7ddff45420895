"""Series that Ray passes on: their names begin with `ray_`, and one page holds those of several replicas.

Ray Serve puts an engine's metrics on its own port, `:` as `_`, counters with and without `_total` by release, and adds
the labels ReplicaId (vLLM 0.11 and later) or WorkerId. One replica's ranks are named after it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from tidegate.model.reading import Rank
from tidegate.observe.engines.samples import Body, Selection
from tidegate.observe.textformat import Sample

_PREFIX = "ray_"
_TOTAL = "_total"


def ray_names(names: Iterable[str]) -> frozenset[str]:
    """Under which names Ray may pass on these (normalised) ones, for `Dialect.wanted`."""
    return frozenset(f"{_PREFIX}{spelt}" for name in names for spelt in (name, name.removesuffix(_TOTAL)))


def ray_rank(sample: Sample) -> Rank:
    """The replica, or the worker where it has no name, and the engine's rank in it."""
    labels = sample.labels
    owner = labels.get("ReplicaId") or labels.get("WorkerId") or ""
    rank = labels.get("engine", "0")
    return Rank(f"{owner}/{rank}" if owner else rank)


def behind_ray(body: Body, prefix: str, known: Container[str]) -> Selection | None:
    """The body with the engine's own names (`known` are those wanted of it); None when Ray passes nothing on.

    `prefix` is what the engine's own (normalised) names begin with.
    """
    names = {name: name.removeprefix(_PREFIX) for name in body.present if name.startswith(f"{_PREFIX}{prefix}")}
    if not names:
        return None
    there = frozenset(names.values())
    for name, own in names.items():
        with_total = f"{own}{_TOTAL}"
        if own not in known and with_total in known and with_total not in there:
            names[name] = with_total
    return Selection(
        {names[name]: found for name, found in body.samples.items() if name in names},
        frozenset(names.values()),
        frozenset(names[name] for name in body.spoiled if name in names),
    )
