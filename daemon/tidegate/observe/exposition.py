"""What one body of a metrics page said: samples by name, in columns that keep their labels from body to body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from tidegate.observe.labels import Labels, LabelSets, Skip


class Sample(NamedTuple):
    """One value; the labels mapping is shared between samples and must not be changed."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Samples(Sequence[Sample]):
    """The samples of one name: in columns, for whoever reads many."""

    labels: LabelSets
    values: Sequence[float]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Samples:
        """Samples that come one by one, in columns."""
        return cls(LabelSets(tuple(sample.labels for sample in samples)), [sample.value for sample in samples])

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, self.labels.sets, self.values)

    @overload
    def __getitem__(self, position: int) -> Sample: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Sample]: ...
    def __getitem__(self, position: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(position, int):
            return Sample(self.labels.sets[position], self.values[position])
        return list(self)[position]


@dataclass(frozen=True, slots=True)
class Exposition:
    """What a body said."""

    samples: Mapping[str, Samples]
    """By normalised sample name, in the order of the body. A name with a line that cannot be read is absent as a
    whole: a sum without one of its parts would look like a counter that fell."""
    present: frozenset[str]
    """Normalised names of all sample lines, whether they were asked for or not."""
    spoiled: frozenset[str] = frozenset()
    """The names that are absent for that reason."""
    skipped: Mapping[Skip, int] = field(default_factory=dict)
    last: str = ""
    """The name of the body's last line when that is a sample and nothing says that it is the end."""
    whole: bool = True
    """False when the body was cut: its last line does not end, or an OpenMetrics body lacks `# EOF`."""
