"""Whether files of one import hold the same rows: overlapping exports, which would count the same money twice. Pure.

Of each file and snapshot the smallest row digests are kept (bottom-k sketches, Broder 1997, "On the resemblance and
containment of documents"): below the lower of two limits both are complete, so what they share there is an unbiased
sample of what they share in all. Rows are no keys: equal ones within a file are legitimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_KEPT = 256
_SUSPECT = 0.5
"""Of the smaller file's rows. Exports of one month that overlap share nearly all of them."""
_FEWEST = 3
_ALL = 1 << 128


@dataclass(slots=True)
class Sketch:
    """The smallest digests of one file's rows in one snapshot."""

    file: str
    part: int = 0
    """Which of the import's files: names may be equal."""
    limit: int = _ALL
    """Every digest below it is in `smallest`."""
    smallest: set[int] = field(default_factory=set)

    def add(self, digest: int) -> None:
        """Note a row."""
        if digest < self.limit:
            self.smallest.add(digest)
            if len(self.smallest) >= 2 * _KEPT:
                self.smallest = set(sorted(self.smallest)[:_KEPT])
                self.limit = max(self.smallest) + 1


def overlaps(sketches: list[Sketch]) -> Iterator[tuple[str, str, float]]:
    """(file, file, share of the smaller one's rows) for those that share too many."""
    holders: dict[int, list[int]] = {}
    for number, sketch in enumerate(sketches):
        shared = Counter(other for digest in sketch.smallest for other in holders.get(digest, ()))
        for other, count in sorted(shared.items()):
            share = _share(sketches[other], sketch)
            if (count >= _FEWEST and share >= _SUSPECT) or _the_same(sketches[other], sketch):
                yield sketches[other].file, sketch.file, share
        for digest in sketch.smallest:
            holders.setdefault(digest, []).append(number)


def _the_same(one: Sketch, other: Sketch) -> bool:
    """Whether two files are known whole and hold the same rows: packed once and once not, however few they are."""
    return one.limit == other.limit == _ALL and one.smallest == other.smallest


def _share(one: Sketch, other: Sketch) -> float:
    limit = min(one.limit, other.limit)
    mine = {digest for digest in one.smallest if digest < limit}
    theirs = {digest for digest in other.smallest if digest < limit}
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller else 0.0
